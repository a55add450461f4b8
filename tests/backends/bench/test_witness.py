"""What is seen of an engine from outside: its process, its memory, its metrics."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.bench.processes import NotSeen, is_here, listener, resident_bytes
from backends.bench.witness import witnessed
from tests.backends.bench.server import Script, serving

WAITS = "import sys; sys.stdout.write('ready'); sys.stdout.flush(); sys.stdin.read()"
LISTENS = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind(__import__('sys').argv[1]); s.listen(); {WAITS}"


def child(*arguments: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen([sys.executable, "-c", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout
    assert started.stdout.read(5) == b"ready"
    return started


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("unix:/run/engine.sock", True),
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        ("http://192.0.2.1:8000", False),
        ("https://engine.example", False),
    ],
)
def test_what_is_here_is_told_by_the_address(url: str, here: bool) -> None:
    assert is_here(url) is here


def test_the_process_is_found_by_its_socket_and_by_its_port(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        assert listener(f"unix:{tmp_path}/s").pid == os.getpid()
        assert listener(f"http://127.0.0.1:{tcp.getsockname()[1]}").pid == os.getpid()


@pytest.mark.parametrize("url", ["unix:/nobody", "http://127.0.0.1:1", "http://192.0.2.1:80"])
def test_where_nobody_is_found_it_says_why(url: str) -> None:
    with pytest.raises(NotSeen):
        listener(url)


def test_without_psutil_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(NotSeen, match="psutil is not installed"):
        listener("unix:/x")


def test_the_memory_of_its_children_counts_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        process = listener(f"unix:{tmp_path}/s")
        with child(WAITS) as below:
            held = resident_bytes(process)
            below.kill()
    assert held > process.memory_info().rss + (1 << 20)


async def test_memory_and_metrics_are_seen_while_the_context_lasts(tmp_path: Path) -> None:
    script = Script(metrics=["sekisho_engine_num_requests_running 4\nsekisho_engine_num_requests_waiting 2\n"])

    async with serving(tmp_path / "s", script) as url:

        def look() -> None:
            with witnessed(url) as seen, witnessed(url, metrics=False) as memory_alone:
                deadline = time.monotonic() + 60
                while not script.looks and time.monotonic() < deadline:
                    time.sleep(0.01)
            assert seen.log is not None
            assert seen.log.most() == {"num_requests_running": 4, "num_requests_waiting": 2}
            assert memory_alone.log is None
            assert 0 < seen.memory.before <= seen.memory.most
            assert (seen.memory.absent, seen.ended) == ("", False)

        await asyncio.to_thread(look)


def test_an_engine_that_is_killed_meanwhile_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with child(LISTENS, str(path)) as engine, witnessed(f"unix:{path}", metrics=False) as seen:
        engine.kill()
        engine.wait()
    assert seen.ended
    assert seen.memory.absent == "its process has ended"
