"""A wheel in an environment of its own: the command answers, settings are checked, a gateway serves its pages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

_PATIENCE = 120.0


class TrialFailed(Exception):
    """What did not do what it should; the text says which and what it said."""


def environment(folder: Path, wheel: Path, *options: str) -> Path:
    """The command `sekisho` of a new environment with this wheel. `options` go to pip."""
    venv.create(folder, with_pip=True, clear=True)
    _say([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *options, str(wheel)], folder, 1800)
    return folder / "bin" / "sekisho"


def try_out(sekisho: Path, folder: Path, version: str) -> None:
    """`folder`: an empty one for settings and data. Raises TrialFailed."""
    if (told := _say([str(sekisho), "--version"], folder).strip()) != version:
        raise TrialFailed(f"sekisho --version says {told!r}; expected {version}")
    settings = folder / "settings.yaml"
    settings.write_text("engine_url: http://127.0.0.1:9\nmax_queue: 8\n")
    _say([str(sekisho), "check", str(settings)], folder)
    _serve(sekisho, folder / "data", folder)


def _serve(sekisho: Path, data: Path, folder: Path) -> None:
    command = [str(sekisho), "up", "--no-engine", "--port", "0", "--data-dir", str(data)]
    log = folder / "up.log"
    with log.open("w") as out:
        running = subprocess.Popen(command, cwd=folder, env=_environ(), stdout=out, stderr=out)
        try:
            address = _address(running, data, log)
            _look(address)
        finally:
            running.send_signal(signal.SIGINT)
            code = running.wait(_PATIENCE)
    if code:
        raise TrialFailed(f"sekisho up ended with {code}: {log.read_text()[-2000:]}")


def _address(running: subprocess.Popen[bytes], data: Path, log: Path) -> str:
    deadline = time.monotonic() + _PATIENCE
    while not (data / "address").exists() or not (found := (data / "address").read_text()):
        if running.poll() is not None or time.monotonic() > deadline:
            raise TrialFailed(f"sekisho up does not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
    return found


def _look(address: str) -> None:
    """A page, and everything that it asks for."""
    page = _get(f"{address}/auth/sign-in")
    if "<html" not in page:
        raise TrialFailed(f"{address}/auth/sign-in is no page: {page[:200]}")
    found = re.findall(r'(?:href|src)="(/web/[^"]+)"', page)
    if not found:
        raise TrialFailed(f"{address}/auth/sign-in names no static file")
    for path in found:
        _get(address + path)


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
            return bytes(answer.read()).decode(errors="replace")
    except (urllib.error.URLError, OSError) as error:
        raise TrialFailed(f"{url}: {error}") from error


def _say(command: list[str], folder: Path, seconds: float = _PATIENCE) -> str:
    """What it prints. In a folder without our sources, so that the installed ones are what runs."""
    done = subprocess.run(
        command, cwd=folder, env=_environ(), capture_output=True, text=True, check=False, timeout=seconds
    )
    if done.returncode:
        raise TrialFailed(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def _environ() -> dict[str, str]:
    """Nothing of the checkout that the release is made from."""
    ours = ("SEKISHO_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
