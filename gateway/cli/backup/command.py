"""`sekisho backup FILE` and `sekisho restore FILE`, as they are typed: where from, where to, what is told meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypeVar

import typer

from gateway.cli import datadir
from gateway.cli.backup import back, out
from gateway.cli.backup.archive import Writer
from gateway.cli.backup.contents import Counts, Head, Place
from gateway.cli.backup.own_valkey import reached
from gateway.cli.backup.whole import written
from gateway.cli.console import CliError, note
from gateway.cli.directory import RedisUrl, on_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.store.redis import Store

T = TypeVar("T")
FilesDir = Annotated[
    Path | None,
    typer.Option(envvar="SEKISHO_FILES_DIR", help="Folder of people's files. [default: files in the data folder]"),
]
_TELL_SECONDS = 2.0
_ANSWER_SECONDS = 60.0  # megabytes are asked for at once


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="To write, for you alone to read; - is standard output.")],
    data_dir: datadir.Option = None,
    files_dir: FilesDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Everything that must survive, in one file: Redis, people's files and server.key. Gateways may go on meanwhile."""
    place = _place(data_dir, files_dir)
    with _written(file) as target:
        counts = _on_redis(place, redis_url, lambda store: out.write(store, place, Writer(target), _Progress()))
    _tell_all("Backed up:", counts)
    note(f"server.key is in it: with it, whoever reads {file} reads all conversations. Keep it as you keep that key.")


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="As `backup` wrote it; - is standard input.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete what is there. Without it Redis must be empty.")
    ] = False,
    data_dir: datadir.Option = None,
    files_dir: FilesDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Put a backup back, with all gateways stopped. It is read whole and checked before anything is changed."""
    place = _place(data_dir, files_dir)
    with _read(file) as source:
        head, server_key = back.verified(source)
        note(f"A backup of {_day(head)}, by Sekisho {head.release}; its checksums fit.")

        async def work(store: Store) -> Counts:
            await back.check_target(store, place, server_key, replace)
            return await back.put_back(store, place, source, head, server_key, _Progress())

        counts = _on_redis(place, redis_url, work)
    _tell_all("Restored:", counts)
    note(f"Every gateway needs {place.server_key}. Sessions are not in a backup: people sign in anew.")


class _Progress:
    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            note(f"... {text}")


def _on_redis(place: Place, redis_url: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    async def main() -> T:
        async with reached(place.data_dir, redis_url) as url:
            return await on_store(url, work, _ANSWER_SECONDS)

    return asyncio.run(main())


def _place(data_dir: Path | None, files_dir: Path | None) -> Place:
    folder = datadir.chosen(data_dir, os.environ)
    return Place(folder, files_dir or folder / "files")


@contextmanager
def _written(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdout.buffer
        return
    try:
        with written(Path(file)) as target:
            yield target
    except OSError as fault:
        raise CliError(f"{file} cannot be written ({fault.strerror or fault}).") from fault


@contextmanager
def _read(file: str) -> Iterator[IO[bytes]]:
    """It is read three times: what comes through a pipe is kept beside, for this user alone, meanwhile."""
    try:
        with open(file, "rb") if file != "-" else tempfile.TemporaryFile() as source:
            if file == "-":
                shutil.copyfileobj(sys.stdin.buffer, source)
                source.seek(0)
            yield source
    except OSError as fault:
        raise CliError(f"{file} cannot be read, or what is in it cannot be written ({fault}).") from fault


def _day(head: Head) -> str:
    return datetime.fromtimestamp(head.made).astimezone().isoformat(" ", "seconds")


def _tell_all(what: str, counts: Counts) -> None:
    note("\n".join((what, *counts.lines())))
