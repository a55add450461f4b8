"""What gateways tell of their lines, for whoever looks at the queue from outside. Knows no Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gateway.queueing.ask import Room


class Line(msgspec.Struct, frozen=True):
    """`rules`: as the queue's scripts take them, rooms included."""

    rules: bytes
    models: tuple[str, ...]
    told: int = 0  # Unix seconds

    @property
    def rooms(self) -> Mapping[str, Room]:
        """By backend."""
        found = msgspec.msgpack.decode(self.rules, type=_Rules).backends
        return {name: Room(rules.capacity, rules.kv, rules.each) for name, rules in found.items()}


class _Backend(msgspec.Struct):
    capacity: int
    kv: int
    each: float


class _Rules(msgspec.Struct):
    backends: dict[str, _Backend]


def told(rules: bytes, models: Iterable[str]) -> bytes:
    return msgspec.msgpack.encode(Line(rules, tuple(models)))


def heard(stored: bytes) -> Line:
    """As the script stored it: the time, a space, what was told."""
    seconds, _, data = stored.partition(b" ")
    return msgspec.structs.replace(msgspec.msgpack.decode(data, type=Line), told=int(seconds))
