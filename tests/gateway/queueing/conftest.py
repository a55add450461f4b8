"""Permits on a real Valkey, and short ways to say who asks for what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import redis

from gateway.queueing.ask import CLASSES, Answer, Ask, Choice, ClassLimits, QueueLimits, Room, Turn
from gateway.queueing.permits import Permits
from gateway.scope import QueueClass
from gateway.store.redis import Store
from tests.gateway.conftest import eventually

_CLASS = ClassLimits(weight=1.0, longest_line=10_000, wait_seconds=60, starvation_seconds=3600)
# Service that does not fade in a test, and nobody who is rescued, unless a test asks for it.
_LIMITS = QueueLimits(
    longest_line=10_000, classes={}, lease_seconds=60, half_life_seconds=1_000_000, heartbeat_seconds=20
)


def limits(weights: tuple[float, ...] = (8, 4, 1), **changes: Any) -> QueueLimits:
    """Fields of a class are those of all three classes."""
    of_all = {name: changes.pop(name) for name in list(changes) if name in ("wait_seconds", "starvation_seconds")}
    of_all |= {"longest_line": changes.pop("class_line")} if "class_line" in changes else {}
    classes = {klass: replace(_CLASS, weight=weight, **of_all) for klass, weight in zip(CLASSES, weights, strict=True)}
    return replace(_LIMITS, classes=classes, **changes)


def wanted(
    request_id: str, subject: str = "", klass: QueueClass = "api", tokens: float = 100, at: str = "a", **fields: Any
) -> Ask:
    """Without a subject everybody is somebody else. `at`: a letter for each backend, all of them as good."""
    choices = tuple(Choice(name, 0.0) for name in at)
    return Ask(request_id, klass, subject or f"of-{request_id}", tokens, **{"choices": choices} | fields)


class Line:
    """A line seen from outside: what one process would ask, and what is stored."""

    def __init__(self, store: Store, permits: Permits, url: str) -> None:
        self.store = store
        self.permits = permits
        self.redis = redis.Redis.from_url(url)

    async def ask(self, ask: Ask) -> Answer:
        return Answer.of(await self.store.run(self.permits.acquire(ask)))

    async def turn(self, ask: Ask) -> Turn:
        return await self.permits.wait(ask, await self.store.run(self.permits.acquire(ask)))

    async def release(self, request_id: str, served: float = 100, pace: float = 0.0) -> None:
        await self.store.run(self.permits.release(request_id, served, pace))

    def members(self, kind: str) -> list[str]:
        return [member.decode() for member in self.redis.zrange(f"{{sekisho}}:{kind}:line", 0, -1)]

    def running(self) -> set[str]:
        return set(self.members("leases"))

    def state(self, name: str) -> float:
        return float(self._state().get(name, 0))

    def at(self, backend: str) -> tuple[int, int]:
        """How many run there, and the KV tokens they hold."""
        found = (self._state().get("at") or {}).get(backend)  # an empty table is packed as a list
        return (found["running"], found["kv"]) if found else (0, 0)

    def set_state(self, **values: float) -> None:
        self.redis.set("{sekisho}:queue:line", msgspec.msgpack.encode(self._state() | values))

    def _state(self) -> dict[str, Any]:
        packed = self.redis.get("{sekisho}:queue:line")
        return dict(msgspec.msgpack.decode(packed)) if packed else {}

    def service(self) -> dict[str, float]:
        """By class and subject, as stored."""
        found = self.redis.zrange("{sekisho}:service:line", 0, -1, withscores=True)
        return {member.decode(): score for member, score in found}

    def kill(self, *request_ids: str) -> None:
        """Their leases and heartbeats have run out, as those of a killed process do."""
        for kind in ("leases", "beats"):
            for request_id in request_ids:
                self.redis.zadd(f"{{sekisho}}:{kind}:line", {request_id: 1}, xx=True)

    def is_empty(self) -> bool:
        kinds = ("leases", "grants", "line", "beats", "asks", "due", "running")
        names = [f"{{sekisho}}:{kind}:line" for kind in kinds]
        names += [f"{{sekisho}}:order:{klass}:line" for klass in CLASSES]
        return self.redis.exists(*names) == 0 and not self._state().get("at") and not self._state().get("lanes")


MakeLine = Callable[..., Line]
OpenLine = Callable[..., Awaitable[Line]]


@pytest.fixture
def make_line(store: Store, redis_url: str) -> MakeLine:
    """A line whose process does nothing by itself."""

    def make(capacity: int = 1, kv_tokens: int = 0, rooms: Mapping[str, Room] | None = None, **changes: Any) -> Line:
        """Of one backend, `a`, unless `rooms` says of which."""
        rooms = {"a": Room(capacity, kv_tokens)} if rooms is None else rooms
        return Line(store, Permits(store, "line", limits(**changes), rooms), redis_url)

    return make


@pytest.fixture
async def open_line(make_line: MakeLine) -> AsyncIterator[OpenLine]:
    """A line whose process listens, beats and renews."""
    made: list[Line] = []

    async def start(**changes: Any) -> Line:
        line = make_line(**changes)
        listening = _listeners(line)
        line.permits.start()
        made.append(line)
        await eventually(lambda: _listeners(line) > listening)
        return line

    yield start
    for line in made:
        await line.permits.aclose()


def _listeners(line: Line) -> int:
    return int(line.redis.pubsub_numsub("{sekisho}:granted:line")[0][1])
