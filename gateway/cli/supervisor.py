"""Keeps processes running: starts them together, restarts what crashes with growing pauses, stops them in order.

Knows no part by name.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.cli.console import CliError
from gateway.cli.process import describe_exit, kill_group, spawn, stop

OnReady = Callable[[str, float], None]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_STABLE_AFTER = 60.0  # seconds of running after which a crash counts as the first again
_PROBE_EVERY = 0.05
_LARGEST_LOG = 10 * 2**20
_TAIL_LINES = 12


@dataclass(frozen=True)
class Part:
    """One process of the whole, and how to tell that it is ready."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    is_ready: Callable[[], Awaitable[bool]]
    pass_fds: Sequence[int] = ()
    death_signal: signal.Signals = signal.SIGKILL  # what it gets on Linux should we be killed
    stop_patience: float = 10.0


@dataclass
class _State:
    process: asyncio.subprocess.Process | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    was_ready: bool = False
    pause: float = 0.0  # before the latest restart


class Supervisor:
    """`parts` in the order in which they depend on each other: started together, stopped from the last to the first."""

    def __init__(self, parts: Sequence[Part], report: Callable[[str], None]) -> None:
        self._parts = parts
        self._report = report
        self._on_ready: OnReady = lambda name, seconds: None
        self._states = {part.name: _State() for part in parts}
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self, on_ready: OnReady) -> None:
        """Returns when all are ready. Raises CliError where one ends before it ever was."""
        self._on_ready = on_ready
        self._keepers = [asyncio.create_task(self._keep(part), name=part.name) for part in self._parts]
        all_ready = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait([all_ready, *self._keepers], return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
        finally:
            all_ready.cancel()

    async def watch(self) -> None:
        """Returns never; raises what a keeper raises."""
        await asyncio.wait(self._keepers, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure()

    async def stop(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for part in reversed(self._parts):
            if (process := self._states[part.name].process) is not None:
                await stop(process, part.stop_patience)

    def kill(self) -> None:
        for state in self._states.values():
            if state.process is not None:
                kill_group(state.process.pid)

    @property
    def names(self) -> list[str]:
        return [part.name for part in self._parts]

    def rows(self) -> list[tuple[str, int, Path]]:
        """Name, process and log of each part that was started."""
        running = ((part, self._states[part.name].process) for part in self._parts)
        return [(part.name, process.pid, part.log) for part, process in running if process is not None]

    async def _all_ready(self) -> None:
        for state in self._states.values():
            await state.ready.wait()

    def _raise_failure(self) -> None:
        for keeper in self._keepers:
            if keeper.done() and not keeper.cancelled() and (fault := keeper.exception()):
                raise fault

    async def _keep(self, part: Part) -> None:
        state = self._states[part.name]
        while True:
            started = time.monotonic()
            code = await self._run_once(part, state)
            how = describe_exit(code)
            if not state.was_ready:
                raise CliError(f"{part.name} could not start ({how}). Its last lines, of {part.log}:\n{tail(part.log)}")
            state.pause = _next_pause(state.pause, time.monotonic() - started)
            self._report(f"{part.name} stopped ({how}); starting it again in {state.pause:g} s. Its log: {part.log}")
            await asyncio.sleep(state.pause)

    async def _run_once(self, part: Part, state: _State) -> int:
        rotate(part.log)
        state.process = await spawn(part.command, part.environment, part.log, part.pass_fds, part.death_signal)
        announcer = asyncio.create_task(self._announce(part, state))
        try:
            code = await state.process.wait()
        finally:
            announcer.cancel()
        state.ready.clear()
        kill_group(state.process.pid)
        return code

    async def _announce(self, part: Part, state: _State) -> None:
        started = time.monotonic()
        while not await part.is_ready():  # noqa: ASYNC110  another process: it can only be asked
            await asyncio.sleep(_PROBE_EVERY)
        if state.was_ready:
            self._report(f"{part.name} is back")
        else:
            self._on_ready(part.name, time.monotonic() - started)
        state.was_ready = True
        state.ready.set()


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    text = log.read_bytes()[-16384:].decode("utf-8", "replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def rotate(log: Path) -> None:
    """One older log is kept, so that logs never fill the disk."""
    if log.exists() and log.stat().st_size > _LARGEST_LOG:
        os.replace(log, log.with_suffix(log.suffix + ".1"))


def _next_pause(last: float, ran: float) -> float:
    return _FIRST_PAUSE if ran > _STABLE_AFTER or not last else min(last * 2, _LONGEST_PAUSE)
