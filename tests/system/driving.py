"""`sekisho up` as a person runs it: a process, its output, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.house.tree import ROOT

COMMAND = (sys.executable, "-m", "gateway.cli.main")
MODEL = "smollm2-135m"


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class Up:
    """One `sekisho up`, on a port that the system chose."""

    def __init__(self, data_dir: Path, *flags: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.output = data_dir.parent / f"{data_dir.name}.out"
        self.started = time.monotonic()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--port", "0", "--data-dir", str(data_dir), *flags],
                stdout=output,
                stderr=output,
                env=clean_environment(**environment),
                cwd=data_dir.parent,
            )

    def text(self) -> str:
        return self.output.read_text("utf-8")

    def wait_until(self, what: str, seconds: float = 60.0) -> None:
        eventually(lambda: what in self.text(), seconds, lambda: f"{what!r} never came:\n{self.text()}", self.process)

    @property
    def curl_line(self) -> str:
        return next(line for line in self.text().splitlines() if line.startswith("curl "))

    @property
    def url(self) -> str:
        found = re.search(r"http://[\d.]+:\d+", self.curl_line)
        assert found
        return found[0]

    @property
    def key(self) -> str:
        found = re.search(r"sk-skh-[a-z0-9]+-[\w-]+", self.text())
        assert found, self.text()
        return found[0]

    def pids(self) -> dict[str, int]:
        return {name: int(pid) for name, pid in re.findall(r"│ (\w+) +│ (\d+) ", self.text())}

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)


def clean_environment(**more: str) -> dict[str, str]:
    """None of this machine's settings; this checkout's packages; wide enough that no table is folded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEKISHO_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "400", **more}


def sekisho(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=clean_environment(**environment),
    )


def request(url: str, key: str | None = None, body: Mapping[str, Any] | None = None) -> Reply:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    asked = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return Reply(answer.status, answer.read(), answer.headers)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Reply(refusal.code, refusal.read(), refusal.headers)


def question(text: str = "Say hello.", **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0, **more}


def eventually(
    holds: Callable[[], bool],
    seconds: float,
    complaint: Callable[[], str],
    process: subprocess.Popen[bytes] | None = None,
) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        gone = process is not None and process.poll() is not None
        assert not gone, complaint()
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.05)
