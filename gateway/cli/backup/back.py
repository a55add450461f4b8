"""An archive back into an installation. Nothing is changed before all of it was read and found whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING

import msgspec

from gateway.cli.backup import archive
from gateway.cli.backup.archive import Member
from gateway.cli.backup.contents import FILES, HEAD, REDIS, SERVER_KEY, Counts, Head, Place, read_head
from gateway.cli.backup.whole import written
from gateway.cli.console import CliError
from gateway.cli.directory import actor

if TYPE_CHECKING:
    from gateway.store.copying import Part
    from gateway.store.redis import Store


def verified(source: IO[bytes]) -> tuple[Head, bytes]:
    """What it says of itself, and its server key. Raises CliError."""
    from gateway.store import schema

    archive.verify(source)
    source.seek(0)
    found = {}
    for member in archive.members(source):
        if member.name not in (HEAD, SERVER_KEY):
            break
        found[member.name] = archive.read_all(member)
    if len(found) != 2:
        raise CliError(f"this is no backup of Sekisho: {HEAD} or {SERVER_KEY} is missing.")
    head = read_head(found[HEAD])
    if head.schema > schema.newest():
        raise CliError(
            f"this backup is of Sekisho {head.release}, whose data is of version {head.schema}; this release knows "
            f"versions up to {schema.newest()}. Use that release, or a newer one."
        )
    return head, found[SERVER_KEY]


async def check_target(store: Store, place: Place, server_key: bytes, replace: bool) -> None:
    """That nothing is lost, and nobody works on it. Raises CliError and StoreAway."""
    from gateway.store import copying, schema

    if running := await schema.gateways(store):
        raise CliError(f"{running} gateways run on this Redis; stop them first. Nothing was changed.")
    if replace:
        return
    if not await copying.is_empty(store):
        raise CliError(
            "this Redis holds data of Sekisho already; --replace deletes it, sessions and all, and puts the backup in "
            "its place. Nothing was changed."
        )
    if place.server_key.exists() and place.server_key.read_bytes() != server_key:
        raise CliError(
            f"{place.server_key} is another key than the backup's; --replace keeps it beside under another name. "
            "Nothing was changed."
        )


async def put_back(
    store: Store, place: Place, source: IO[bytes], head: Head, server_key: bytes, tell: Callable[[str], None]
) -> Counts:
    """In place of all that is there. Broken off, no gateway starts on the half of it: it is to be begun again."""
    from gateway.store import copying, schema
    from gateway.store.directory import Directory
    from gateway.store.records import Records

    counts = Counts()
    await schema.put(store, schema.RESTORING)
    await copying.clear(store)
    _put_server_key(place, server_key)
    source.seek(0)
    for member in archive.members(source):
        if member.name.startswith(REDIS):
            await _write(store, member, counts)
        elif member.name.startswith(FILES):
            _put_file(place, member, counts)
        tell(member.name)
    details = {"release": head.release, "made": head.made}
    await Directory(Records(store)).note(actor(), "backup.restore", "redis", details)
    await schema.put(store, head.schema)
    return counts


async def _write(store: Store, member: Member, counts: Counts) -> None:
    from gateway.store import copying

    await copying.write(store, _counted(_parts(archive.read_all(member)), counts))


def _counted(parts: Iterable[Part], counts: Counts) -> Iterator[Part]:
    for part in parts:
        counts.add_part(part)
        yield part


def _parts(data: bytes) -> Iterator[Part]:
    from gateway.store.copying import Part

    decoder, view, at = msgspec.msgpack.Decoder(Part), memoryview(data), 0
    while at < len(data):
        size = int.from_bytes(view[at : at + 4], "big")
        yield decoder.decode(view[at + 4 : at + 4 + size])
        at += 4 + size


def _put_server_key(place: Place, server_key: bytes) -> None:
    path = place.server_key
    if path.exists():
        if path.read_bytes() == server_key:
            return
        path.rename(path.with_name(f"server.key.{int(time.time())}"))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with written(path) as target:
        target.write(server_key)


def _put_file(place: Place, member: Member, counts: Counts) -> None:
    place.files.mkdir(mode=0o700, parents=True, exist_ok=True)
    with written(place.files / member.name.removeprefix(FILES)) as target:
        shutil.copyfileobj(member.content, target)
    counts.add("contents of files")
