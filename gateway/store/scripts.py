"""Lua scripts as values: a script knows its digest, a call knows its keys and arguments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """The source must be idempotent: a call whose answer was lost is sent again."""

    source: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest())

    def call(self, keys: tuple[str, ...], *arguments: Argument) -> Call:
        return Call(self, keys, arguments)


class Call(NamedTuple):
    script: Script
    keys: tuple[str, ...]
    arguments: tuple[Argument, ...]
