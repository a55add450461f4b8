"""Packages of other languages and of other worlds, for tests that need them: into ignored folders, once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

OLDEST_NODE = (20, 12)


def npm_packages(folder: Path, what: str) -> None:
    """What a package-lock.json names, into node_modules beside it. `what` cannot run without."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        give_up(what, "Node.js and npm are not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(map(int, version.removeprefix("v").split("."))) < OLDEST_NODE:
        give_up(what, f"Node.js is {version}, and older than {OLDEST_NODE[0]}.{OLDEST_NODE[1]}")
    _once(
        folder / "package-lock.json",
        folder / "node_modules" / ".installed",
        lambda: _run(what, "npm", "ci", "--ignore-scripts", cwd=folder),
    )


def python_packages(requirements: Path, folder: Path, what: str) -> Path:
    """The Python of an environment of their own: what our clients use need not agree with what we use."""
    python = folder / "bin" / "python"

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        _run(what, str(python), "-m", "pip", "install", "--only-binary", ":all:", "-r", str(requirements), cwd=folder)

    _once(requirements, folder / ".installed", install, f"{sys.version_info[:2]}")
    return python


def _once(lock: Path, stamp: Path, install: Callable[[], None], more: str = "") -> None:
    """Several test runs may come here at once; one installs, the others wait for it."""
    digest = hashlib.sha256(lock.read_bytes() + more.encode()).hexdigest()
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if stamp.read_text() == digest:
                return
        install()
        stamp.write_text(digest)


def _run(what: str, *command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        give_up(what, f"{' '.join(command[:4])} failed: {done.stderr.strip()[-500:]}")


def give_up(what: str, why: str) -> NoReturn:
    """Skip the test; fail it where CI is to have everything."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} cannot run: {why}")
    pytest.skip(f"{what} cannot run: {why}")
