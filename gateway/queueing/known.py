"""What gateways tell of their engines, for whoever looks at the queue from outside. Knows no Redis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


class Engine(msgspec.Struct, frozen=True):
    """`rules`: as the queue's scripts take them, room included."""

    rules: bytes
    models: tuple[str, ...]
    told: int = 0  # Unix seconds

    @property
    def capacity(self) -> int:
        return int(self._read()["capacity"])

    @property
    def kv_tokens(self) -> int:
        return int(self._read()["kv"])

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.msgpack.decode(self.rules)
        return found


def told(rules: bytes, models: Iterable[str]) -> bytes:
    return msgspec.msgpack.encode(Engine(rules, tuple(models)))


def heard(stored: bytes) -> Engine:
    """As the script stored it: the time, a space, what was told."""
    seconds, _, data = stored.partition(b" ")
    return msgspec.structs.replace(msgspec.msgpack.decode(data, type=Engine), told=int(seconds))
