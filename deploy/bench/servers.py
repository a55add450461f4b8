"""The servers under test: started, waited for, weighed, stopped with all their children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 600  # vLLM compiles
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Plan:
    gguf: Path
    context: int  # tokens for each request
    slots: int
    threads: int
    logs: Path


@dataclass
class Server:
    """A context manager: entering starts it and waits until it answers."""

    name: str
    url: str
    command: list[str] = field(default_factory=list)  # empty: it runs already
    environment: dict[str, str] = field(default_factory=dict)
    logs: Path = Path()
    api_key: str | None = None
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        if self.command:
            self.logs.mkdir(parents=True, exist_ok=True)
            with (self.logs / f"{self.name.replace(' ', '-')}.log").open("wb") as log:
                self._process = subprocess.Popen(
                    self.command,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.environment},
                    cwd=ROOT,
                    start_new_session=True,
                )
            self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def memory_bytes(self) -> int | None:
        """Resident memory of the process and its children now; None for a server that we did not start."""
        return _resident(self._process.pid) if self._process else None

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            if _answers(self.url):
                return
            time.sleep(0.2)
        self.__exit__()
        raise RuntimeError(f"{self.name} did not start; its log is in {self.logs}")


def ours_running(url: str, api_key: str | None) -> Server:
    return Server("Sekisho", url, api_key=api_key)


def ours_started(plan: Plan) -> Server:
    path = Path(tempfile.mkdtemp(prefix="sekisho-bench-")) / "engine.sock"
    command = [
        sys.executable,
        "-m",
        "gateway.cli.main",
        "engine",
        "--model",
        str(plan.gguf.resolve()),
        "--uds",
        str(path),
    ]
    return Server("Sekisho", f"unix:{path}", [*command, "--max-num-seqs", str(plan.slots)], logs=plan.logs)


def llama(plan: Plan, binary: Path, name: str) -> Server:
    port = str(free_port())
    command = [str(binary), "-m", str(plan.gguf.resolve()), "--host", "127.0.0.1", "--port", port]
    command += ["-t", str(plan.threads), "--parallel", str(plan.slots), "-c", str(plan.slots * plan.context)]
    return Server(name, f"http://127.0.0.1:{port}", command, logs=plan.logs)


def vllm(plan: Plan, binary: Path, model: Path) -> Server:
    port = str(free_port())
    command = [str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", port, "--dtype", "bfloat16"]
    command += ["--max-model-len", str(plan.context), "--max-num-seqs", str(plan.slots)]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2"}  # GiB
    return Server("vLLM", f"http://127.0.0.1:{port}", command, environment, plan.logs)


def _answers(url: str) -> bool:
    if url.startswith("unix:"):
        return _socket_answers(url.removeprefix("unix:"))
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _socket_answers(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(path)
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _resident(root: int) -> int:
    """`ps` says it alike on Linux and macOS."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listing.splitlines()]
    family = {root}
    for pid, parent, _ in sorted(rows):
        if parent in family:
            family.add(pid)
    return sum(rss * 1024 for pid, _, rss in rows if pid in family)
