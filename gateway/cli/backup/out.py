"""Everything that must survive, into an archive: Redis, server key, people's files. Gateways may go on meanwhile."""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gateway.cli.backup.archive import Writer
from gateway.cli.backup.contents import FILES, FORMAT, HEAD, REDIS, SERVER_KEY, Counts, Head, Place
from gateway.cli.directory import checked_server_key

if TYPE_CHECKING:
    from gateway.store.redis import Store

_MEMBER_BYTES = 4 * 1024 * 1024


async def write(store: Store, place: Place, writer: Writer, tell: Callable[[str], None]) -> Counts:
    """Raises StoreAway, CliError and OSError. Of Redis no more than a few MiB is in memory at once."""
    from gateway.store import schema

    counts = Counts()
    server_key = await checked_server_key(store, place.data_dir)
    release = importlib.metadata.version("sekisho")
    head = Head(FORMAT, schema.newest(), release, int(time.time()))
    writer.add(HEAD, msgspec.json.format(msgspec.json.encode(head)))
    writer.add(SERVER_KEY, server_key)
    await _redis(store, writer, counts, tell)
    _files(place, writer, counts, tell)
    writer.finish()
    return counts


async def _redis(store: Store, writer: Writer, counts: Counts, tell: Callable[[str], None]) -> None:
    from gateway.store import copying

    encoder, buffer, number, parts = msgspec.msgpack.Encoder(), bytearray(), 0, 0
    async for part in copying.read(store):
        counts.add_part(part)
        parts += 1
        data = encoder.encode(part)
        buffer += len(data).to_bytes(4, "big") + data
        if len(buffer) >= _MEMBER_BYTES:
            writer.add(f"{REDIS}{number:08}", bytes(buffer))
            buffer.clear()
            number += 1
            tell(f"{parts} parts of Redis")
    writer.add(f"{REDIS}{number:08}", bytes(buffer))


def _files(place: Place, writer: Writer, counts: Counts, tell: Callable[[str], None]) -> None:
    """As they are now. One that is still written is taken as far as it goes, as after a crash."""
    for path in sorted(place.files.glob("file-*")):
        try:
            with path.open("rb") as source:
                writer.add_stream(f"{FILES}{path.name}", source, os.fstat(source.fileno()).st_size)
        except FileNotFoundError:  # deleted meanwhile
            continue
        counts.add("contents of files")
        tell(f"{path.name}")
