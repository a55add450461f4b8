"""What is seen of an engine from outside its answers while a load lasts: its own metrics, its process, its memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from backends.bench.config import BenchConfig
from backends.bench.processes import NotSeen, listener, resident_bytes
from backends.bench.watch import ServerLog, ServerWatch

_PAUSE_S = 0.25


class Memory(NamedTuple):
    """Resident bytes: before the load, the most, after it. `absent` says why nothing is known."""

    before: int = 0
    most: int = 0
    after: int = 0
    absent: str = "nobody looked"


@dataclass(slots=True)
class Witness:
    """Complete when the context has ended. log: None where the run itself reads the engine's metrics. ended: the
    process that listened before the load is gone."""

    log: ServerLog | None = None
    memory: Memory = field(default_factory=Memory)
    ended: bool = False


@contextmanager
def witnessed(url: str, *, metrics: bool = True) -> Iterator[Witness]:
    """Look at the engine at `url` from threads, for a load is sent by an event loop that must not wait. Its metrics
    are not asked for again where it is the server that is measured."""
    witness, begun, end = Witness(), threading.Event(), threading.Event()
    looks = [threading.Thread(target=_see_memory, args=(url, witness, begun, end))]
    if metrics:
        looks.append(threading.Thread(target=lambda: asyncio.run(_see_metrics(url, witness, end))))
    for look in looks:
        look.start()
    begun.wait()  # else the load would be in what was held before it
    try:
        yield witness
    finally:
        end.set()
        for look in looks:
            look.join()


def _see_memory(url: str, witness: Witness, begun: threading.Event, end: threading.Event) -> None:
    process = None
    try:
        process = listener(url)
        before = most = resident_bytes(process)
        begun.set()
        while not end.wait(_PAUSE_S):
            most = max(most, resident_bytes(process))
        after = resident_bytes(process)
        witness.memory = Memory(before, max(most, after), after, absent="")
    except NotSeen as why:
        witness.memory = Memory(absent=str(why))
    finally:
        begun.set()
    witness.ended = process is not None and not process.is_running()


async def _see_metrics(url: str, witness: Witness, end: threading.Event) -> None:
    async with ServerWatch(BenchConfig(url=url)) as watch:
        await asyncio.to_thread(end.wait)
    witness.log = watch.read()
