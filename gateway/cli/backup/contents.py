"""What is in a backup, as both directions know it: what it says of itself, its members, their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.cli.console import CliError

if TYPE_CHECKING:
    from gateway.store.copying import Part

FORMAT = 1
HEAD, SERVER_KEY, REDIS, FILES = "backup.json", "server.key", "redis/", "files/"


class Head(msgspec.Struct, frozen=True):
    """schema: the version of the data. made: Unix seconds."""

    format: int
    schema: int
    release: str
    made: int


class Place(NamedTuple):
    """One installation: its data folder, and that of people's files."""

    data_dir: Path
    files: Path

    @property
    def server_key(self) -> Path:
        return self.data_dir / "server.key"


class Counts:
    """What went through, in words."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._key = ""

    def add(self, what: str, number: int = 1) -> None:
        self._counts[what] += number

    def add_part(self, part: Part) -> None:
        """A long key comes in several parts, one behind the other, and counts once."""
        if part.key != self._key:
            self._key = part.key
            self.add(part.key.partition(":")[0].replace("_", " ") if part.type == "record" else _area(part.key))

    def lines(self) -> Iterator[str]:
        return (f"  {what}: {number}" for what, number in sorted(self._counts.items()))


def _area(key: str) -> str:
    return key.split(":")[1].replace("-", " ") + " (keys)"


def read_head(data: bytes) -> Head:
    try:
        head = msgspec.json.decode(data, type=Head)
    except msgspec.MsgspecError as error:
        raise CliError(f"this is no backup of Sekisho: {HEAD} says nothing of one.") from error
    if head.format != FORMAT:
        raise CliError(f"this backup is of format {head.format}, and this release reads {FORMAT}. Use a newer one.")
    return head
