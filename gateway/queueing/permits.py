"""Turns in one line: a lease in Redis, renewed while it is used, that expires by itself if this process dies.

A free turn is handed to who is next (fair.lua) by the script that frees it, and published; one listener a process
wakes the waiter. One heartbeat a process says that its waiters live, and covers messages that were lost.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.errors import QueueFull, QueueTimeout, StoreAway
from gateway.queueing import known
from gateway.queueing.ask import CLASSES, Answer, Ask, Lost, QueueLimits, Room, State, Turn
from gateway.queueing.scripts import ACQUIRE, MOVE, RELEASE, RENEW, TELL, TEND, names
from gateway.queueing.speed import Speed
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Argument, Call

log = logging.getLogger("sekisho.queueing")

_RECONNECT_SECONDS = 0.5
# However fast the line moves, places are asked for no oftener.
_CALM_SECONDS = 0.25
_UNKNOWN_RETRY_SECONDS = 5

# Told its place and, where it is known, the seconds until its turn.
OnPlace = Callable[[int, float | None], None]


@dataclass(slots=True)
class _Waiter:
    """What others leave here for a request's own task, which alone calls back."""

    on_place: OnPlace | None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    may_run: bool = False  # or has lost its place: asking again tells
    place: int = 0
    eta_ms: int = -1
    told: int = 0

    def wake(self) -> None:
        self.may_run = True
        self.woken.set()

    def stands_at(self, place: int, eta_ms: int) -> None:
        self.place, self.eta_ms = place, eta_ms
        self.woken.set()

    async def news(self) -> None:
        """Returns when it is time to ask again."""
        while not self.may_run:
            if self.on_place is not None and self.place != self.told:
                self.told = self.place
                self.on_place(self.place, None if self.eta_ms < 0 else self.eta_ms / 1000)
            await self.woken.wait()
            self.woken.clear()
        self.may_run = False


class Permits:
    """`start` before use, `aclose` after. `rooms` may be set at any time, as backends come, change and go."""

    def __init__(self, store: Store, line: str, limits: QueueLimits, rooms: Mapping[str, Room]) -> None:
        self._store = store
        self._limits = limits
        self._line = line
        self._names = names(line)
        self._channel = keys.granted(line)
        self.rooms = rooms
        self.speeds: Mapping[str, Speed] = {}  # of those that were measured, as of the last renewal
        self._held: set[str] = set()
        self._waiting: dict[str, _Waiter] = {}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def rooms(self) -> Mapping[str, Room]:
        return self._rooms

    @rooms.setter
    def rooms(self, rooms: Mapping[str, Room]) -> None:
        self._rooms = rooms
        self._config = _config(self._limits, rooms, self._channel)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(task()) for task in (self._listen, self._tend, self._renew)]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def acquire(self, ask: Ask) -> Call:
        """The call that asks for a turn. Its answer goes to `wait`; whatever it is, `release` is called in the end."""
        return ACQUIRE.call(self._names_for(ask), self._config, *_asked(ask))

    def move(self, ask: Ask, served_tokens: float) -> Call:
        """The call that gives back a turn whose backend was lost, after so much service, and asks for another.

        Where there is room it is granted before all who wait, or else it waits before them. As after `acquire`, its
        answer goes to `wait`, and `release` is called in the end.
        """
        self._held.discard(ask.request_id)
        return MOVE.call(self._names_for(ask), self._config, *_asked(ask), served_tokens, os.urandom(8))

    async def wait(self, ask: Ask, answer: Sequence[Any], on_place: OnPlace | None = None) -> Turn:
        """Returns when it is this request's turn. Raises QueueFull, QueueTimeout, Lost, StoreAway.

        `on_place` is called at once, and whenever the place in the line has changed.
        """
        first = last = Answer.of(answer)
        if first.state is State.WAITING:
            last = await self._wait_in_line(ask, first, on_place)
        if last.state is State.LOST:
            raise Lost
        if last.state is not State.GRANTED:
            raise _refusal(last, self._limits.classes[ask.klass].wait_seconds)
        self._held.add(ask.request_id)
        return Turn(last.now_ms, first.state is State.WAITING, last.backend)

    def release(self, request_id: str, served_tokens: float, seconds_per_token: float = 0.0) -> Call:
        """The call that gives the turn, or the place in the line, back, with the weighted service it really took.

        `seconds_per_token`, where there is a measure of it, teaches how many may run.
        """
        self._held.discard(request_id)
        return RELEASE.call(self._names, self._config, request_id, served_tokens, seconds_per_token)

    def tell(self, models: Iterable[str]) -> Call:
        """The call that tells administrators of this line."""
        return TELL.call((keys.LINES,), self._line, known.told(self._config, models))

    def renew(self) -> Call:
        """The call that renews all that this process holds. Its answer goes to `renewed`."""
        lease = _ms(self._limits.lease_seconds)
        return RENEW.call((self._names[0], self._names[-1]), lease, *self._held)

    def renewed(self, answer: Sequence[bytes]) -> None:
        self.speeds = {name.decode(): Speed.of(sums) for name, sums in zip(answer[::2], answer[1::2], strict=True)}

    def _names_for(self, ask: Ask) -> tuple[str, ...]:
        return self._names + ((keys.reservation(ask.request_id),) if ask.reserved else ())

    async def _wait_in_line(self, ask: Ask, answer: Answer, on_place: OnPlace | None) -> Answer:
        seconds = self._limits.classes[ask.klass].wait_seconds
        try:
            with self._in_line(ask.request_id, on_place) as waiter:
                async with asyncio.timeout(seconds):
                    while answer.state is State.WAITING:
                        waiter.stands_at(answer.place, answer.eta_ms)
                        await waiter.news()
                        answer = Answer.of(await self._store.run(self.acquire(ask)))
                    return answer
        except TimeoutError:
            raise _refusal(answer._replace(state=State.LATE), seconds) from None

    @contextmanager
    def _in_line(self, request_id: str, on_place: OnPlace | None) -> Iterator[_Waiter]:
        waiter = _Waiter(on_place)
        if not self._waiting:
            self._news.set()
        self._waiting[request_id] = waiter
        try:
            yield waiter
        finally:
            del self._waiting[request_id]

    async def _listen(self) -> None:
        while True:
            try:
                async with self._store.subscribed(self._channel) as messages:
                    self._news.set()  # something may have been missed
                    async for message in messages:
                        self._hear(message.decode())
            except OSError:
                # The heartbeats go on meanwhile; the store logs that Redis is away.
                await asyncio.sleep(_RECONNECT_SECONDS)

    def _hear(self, request_id: str) -> None:
        """A request was given its turn, or (with no id) left the line: all places may have changed."""
        if (waiter := self._waiting.get(request_id)) is not None:
            waiter.wake()
        if any(waiter.on_place for waiter in self._waiting.values()):
            self._news.set()

    async def _tend(self) -> None:
        """A beat a heartbeat; sooner when the line moves, and when a lease may run out that nobody gives back."""
        alive = time.monotonic()
        while True:
            if not self._waiting:
                await self._news.wait()
                alive = time.monotonic()
            self._news.clear()
            try:
                pause = await self._beat()
                alive = time.monotonic()
            except StoreAway:
                pause = self._limits.heartbeat_seconds
                if time.monotonic() - alive > 3 * pause:
                    self._wake_all()  # their places are lost: asking again tells them whether Redis is still away
            await asyncio.sleep(min(pause, _CALM_SECONDS))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause - _CALM_SECONDS):
                    await self._news.wait()

    async def _beat(self) -> float:
        """Seconds until the next is due."""
        told = [request_id for request_id, waiter in self._waiting.items() if waiter.on_place]
        ids = told + [request_id for request_id, waiter in self._waiting.items() if not waiter.on_place]
        _, next_expiry, *found = await self._store.run(TEND.call(self._names, self._config, len(told), *ids))
        for request_id, state, place, eta in zip(ids, found[::3], found[1::3], found[2::3], strict=True):
            if (waiter := self._waiting.get(request_id)) is None:
                continue
            if state != State.WAITING:
                waiter.wake()
            elif waiter.on_place:
                waiter.stands_at(place, eta)
        heartbeat = self._limits.heartbeat_seconds
        return heartbeat if next_expiry < 0 else min(heartbeat, (next_expiry + 1) / 1000)

    def _wake_all(self) -> None:
        for waiter in self._waiting.values():
            waiter.wake()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease_seconds / 3)
            if self._held:
                with suppress(StoreAway):
                    self.renewed(await self._store.run(self.renew()))


def _asked(ask: Ask) -> tuple[Argument, ...]:
    """As the scripts take it."""
    number = CLASSES.index(ask.klass) + 1
    choices = msgspec.msgpack.encode(ask.choices)
    lane = ",".join(sorted({choice.backend for choice in ask.choices}))
    size = max(1.0, ask.tokens)
    return ask.request_id, number, ask.subject, size, ask.kv_tokens, ask.model, choices, lane


def _config(limits: QueueLimits, rooms: Mapping[str, Room], channel: str) -> bytes:
    classes = [
        {
            "weight": of_class.weight,
            "line": of_class.longest_line,
            "wait": _ms(of_class.wait_seconds),
            "starvation": _ms(of_class.starvation_seconds),
        }
        for of_class in (limits.classes[name] for name in CLASSES)
    ]
    return msgspec.msgpack.encode(
        {
            "backends": {
                name: {"capacity": room.capacity, "kv": room.kv_tokens, "each": room.each_seconds}
                for name, room in rooms.items()
            },
            "line": limits.longest_line,
            "lease": _ms(limits.lease_seconds),
            "beat": _ms(limits.heartbeat_seconds * 3),
            "half_life": _ms(limits.half_life_seconds),
            "channel": channel,
            "classes": classes,
        }
    )


def _refusal(answer: Answer, wait_seconds: float) -> QueueFull | QueueTimeout:
    error: QueueFull | QueueTimeout
    if answer.state is State.FULL:
        error = QueueFull(f"{answer.place} requests are waiting already. Try again in a few seconds.")
        seconds = answer.eta_ms / 1000
    elif answer.state is State.LATE:
        error = QueueTimeout(f"No engine is free for you within {wait_seconds:g} seconds. Try again later.")
        seconds = answer.eta_ms / 1000 - wait_seconds
    else:
        error = QueueTimeout("The reservation of your quota ran out before your turn. Try again.")
        seconds = 0.0
    error.retry_after = _UNKNOWN_RETRY_SECONDS if answer.eta_ms < 0 else max(1, math.ceil(seconds))
    return error


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
