"""Keeping processes running, with small ones in the places of the real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.cli import supervisor as module
from gateway.cli.console import CliError
from gateway.cli.supervisor import Part, Supervisor, rotate, tail
from tests.processes import is_running


async def _at_once() -> bool:
    return True


async def _never() -> bool:
    return False


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def part(tmp_path: Path) -> Callable[..., Part]:
    def make(name: str, code: str, is_ready: Callable[[], Awaitable[bool]] = _at_once) -> Part:
        return Part(name, (sys.executable, "-c", code), os.environ, tmp_path / f"{name}.log", is_ready)

    return make


def pids(supervisor: Supervisor) -> dict[str, int]:
    return {name: pid for name, pid, _ in supervisor.rows()}


async def heard(reports: list[str], text: str) -> None:
    async with asyncio.timeout(10):
        while not any(text in line for line in reports):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


SLEEP = "import time; time.sleep(60)"


async def test_all_parts_are_started_and_stopped(part: Callable[..., Part], reports: list[str]) -> None:
    ready: list[str] = []
    supervisor = Supervisor([part("one", SLEEP), part("two", SLEEP)], reports.append)
    await supervisor.start(lambda name, seconds: ready.append(name))
    assert sorted(ready) == ["one", "two"]
    running = pids(supervisor)
    await supervisor.stop()
    for pid in running.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_part_that_never_was_ready_stops_the_start_with_its_last_lines(
    part: Callable[..., Part], reports: list[str]
) -> None:
    broken = part("engine", "import sys; sys.exit('no such model')", _never)
    supervisor = Supervisor([part("valkey", SLEEP), broken], reports.append)
    with pytest.raises(CliError, match=r"engine could not start \(exit code 1\)(?s:.*)no such model"):
        await supervisor.start(lambda name, seconds: None)
    await supervisor.stop()


async def test_a_crash_is_reported_and_restarted(part: Callable[..., Part], reports: list[str]) -> None:
    supervisor = Supervisor([part("engine", SLEEP)], reports.append)
    await supervisor.start(lambda name, seconds: None)
    first = pids(supervisor)["engine"]
    os.kill(first, signal.SIGSEGV)
    await heard(reports, "engine is back")
    assert "engine stopped (killed by SIGSEGV); starting it again in 0.5 s" in reports[0]
    assert pids(supervisor)["engine"] != first
    await supervisor.stop()


async def test_pauses_grow_while_it_keeps_crashing(
    part: Callable[..., Part], reports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.03)
    supervisor = Supervisor([part("engine", "import time; time.sleep(0.3)")], reports.append)
    await supervisor.start(lambda name, seconds: None)
    await heard(reports, "in 0.03 s")
    stops = [line.split(" again in ")[1].split(" s.")[0] for line in reports if "stopped" in line]
    assert stops[:3] == ["0.01", "0.02", "0.03"]
    await supervisor.stop()


async def test_a_long_good_run_forgives_earlier_crashes() -> None:
    assert module._next_pause(8.0, ran=120.0) == module._FIRST_PAUSE
    assert module._next_pause(8.0, ran=1.0) == 16.0


async def test_what_a_part_started_itself_goes_with_it(
    part: Callable[..., Part], reports: list[str], tmp_path: Path
) -> None:
    note = tmp_path / "grandchild"
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '60']);"
        f"open({str(note)!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )

    async def noted() -> bool:
        return note.exists() and note.read_text() != ""

    supervisor = Supervisor([part("engine", code, noted)], reports.append)
    await supervisor.start(lambda name, seconds: None)
    await supervisor.stop()
    async with asyncio.timeout(5):
        while is_running(int(note.read_text())):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_one_that_does_not_heed_the_request_to_stop_is_killed(
    part: Callable[..., Part], reports: list[str], tmp_path: Path
) -> None:
    started = tmp_path / "deaf"
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(started)!r}, 'w'); time.sleep(60)"
    )

    async def is_ready() -> bool:
        return started.exists()

    deaf = Part("deaf", (sys.executable, "-c", code), os.environ, tmp_path / "log", is_ready, stop_patience=0.2)
    supervisor = Supervisor([deaf], reports.append)
    await supervisor.start(lambda name, seconds: None)
    await asyncio.wait_for(supervisor.stop(), 5)


def test_logs_are_told_from_their_end_and_kept_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "engine.log"
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    assert tail(log, 2) == "    line 98\n    line 99"
    monkeypatch.setattr(module, "_LARGEST_LOG", 10)
    rotate(log)
    assert not log.exists()
    assert (tmp_path / "engine.log.1").exists()
