"""What administrators order: this request ends, nobody new for that model. Heard by every gateway; nothing is lost.

Orders are published, and looked for twice a second should their news be lost. Who gives them: administration.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

from gateway.errors import CancelledByAdministrator, DoorError, ModelDraining, ModelNotFound, StoreAway
from gateway.queueing.permits import Permits
from gateway.store import keys
from gateway.store.record import Record
from gateway.store.redis import Store
from gateway.store.scripts import Script

_LOOK_SECONDS = 0.5
_RECONNECT_SECONDS = 0.5

# KEYS 1 models that are drained  2 requests that were ended. Answers both.
_LOOK = Script(
    """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
return { redis.call('ZRANGE', KEYS[1], 0, -1), redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf') }
"""
)


class Drain(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A model that takes nobody new. The id is the model's name."""

    kind: ClassVar[str] = "drain"


@dataclass(eq=False, slots=True)
class Flight:
    """A request between its asking and its end, and the task that serves it."""

    task: asyncio.Task[object]
    model: str
    waits: bool = True
    fault: DoorError | None = None

    def end(self, fault: DoorError) -> None:
        if self.fault is None and not self.task.done():
            self.fault = fault
            self.task.cancel()


class Orders:
    """`start` before use, `aclose` after.

    `lines`: all that there are now, each with its models. `is_gone` tells of a model whether no engine has it any more.
    """

    def __init__(
        self,
        store: Store,
        lines: Callable[[], Iterable[tuple[Permits, Sequence[str]]]],
        is_gone: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._lines = lines
        self._is_gone = is_gone
        self.drained: frozenset[str] = frozenset()
        self._flights: dict[str, Flight] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when what is drained is known, if Redis is there."""
        with suppress(StoreAway):
            await self._look()
        self._tasks = [asyncio.create_task(task()) for task in (self._listen, self._keep_looking)]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self, model: str) -> None:
        """Raises ModelDraining."""
        if model in self.drained:
            raise _draining(model)

    @asynccontextmanager
    async def watched(self, request_id: str, model: str) -> AsyncIterator[Flight]:
        """Raises inside, and out of here, what an order says. While it `waits`, orders about its model concern it."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be ended")
        flight = self._flights[request_id] = Flight(task, model)
        try:
            yield flight
        except asyncio.CancelledError:
            if flight.fault is not None:
                task.uncancel()
                raise flight.fault from None
            raise
        finally:
            del self._flights[request_id]

    def end_all(self, fault: Callable[[], DoorError]) -> None:
        """Whoever runs or waits in this process."""
        for flight in self._flights.values():
            flight.end(fault())

    async def _listen(self) -> None:
        while True:
            try:
                async with self._store.subscribed(keys.ORDERS) as messages:
                    await self._look()  # what was told before is lost
                    async for message in messages:
                        await self._hear(message.decode())
            except (OSError, StoreAway):
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _hear(self, request_id: str) -> None:
        if request_id:
            self._cancel(request_id)
        else:
            await self._look()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(StoreAway):
                await self._look()

    async def _look(self) -> None:
        """Also tells of every line, once its models are known. Raises StoreAway."""
        calls = [_LOOK.call((keys.records(Drain.kind), keys.CANCELLED))]
        calls += [permits.tell(models) for permits, models in self._lines() if models]
        drained, cancelled = (await self._store.run_all(*calls))[0]
        self.drained = frozenset(name.decode() for name in drained)
        for request_id in cancelled:
            self._cancel(request_id.decode())
        for flight in [flight for flight in self._flights.values() if flight.waits]:
            if flight.model in self.drained:
                flight.end(_draining(flight.model))
            elif self._is_gone(flight.model):
                flight.end(ModelNotFound(f"The model `{flight.model[:200]}` is not served any more."))

    def _cancel(self, request_id: str) -> None:
        if (flight := self._flights.get(request_id)) is not None:
            flight.end(CancelledByAdministrator())


def _draining(model: str) -> ModelDraining:
    return ModelDraining(f"The model `{model[:200]}` takes no new requests at the moment. Try again later.")
