"""The directory as the command line reaches it: the Redis that is named, or the Valkey that `up` runs."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gateway.cli import datadir
from gateway.cli.console import CliError
from gateway.cli.parts import Place

if TYPE_CHECKING:
    from gateway.identity.api_keys import KeyRing
    from gateway.settings.redis_url import RedisAt
    from gateway.store.directory import Actor, Directory
    from gateway.store.redis import Store

T = TypeVar("T")
Work = Callable[["Directory", "KeyRing"], Awaitable[T]]
StoreWork = Callable[["Store"], Awaitable[T]]
_TIMEOUT = 5.0

RedisUrl = Annotated[str | None, typer.Option(envvar="SEKISHO_REDIS_URL", help="[default: the Valkey of `sekisho up`]")]


def with_store(data_dir: Path | None, redis_url: str | None, work: StoreWork[T]) -> T:
    return asyncio.run(on_store(_reached(data_dir, redis_url)[1], work))


async def on_directory(redis_url: str, data_dir: Path, work: Work[T]) -> T:
    from gateway.identity.api_keys import KeyRing
    from gateway.store.directory import Directory
    from gateway.store.records import Records

    async def on_records(store: Store) -> T:
        directory = Directory(Records(store))
        return await work(directory, KeyRing(directory, await checked_server_key(store, data_dir)))

    return await on_store(redis_url, on_records)


async def checked_server_key(store: Store, data_dir: Path) -> bytes:
    """Raises CliError also where the data is of another version than this code's."""
    from gateway.identity.server_key import WrongServerKey, check_server_key, load_server_key
    from gateway.store import schema

    server_key = load_server_key(data_dir)
    try:
        await schema.check(store)
        await check_server_key(store, server_key, data_dir)
    except (WrongServerKey, schema.WrongSchema) as fault:
        raise CliError(str(fault)) from fault
    return server_key


async def on_store(redis_url: str, work: StoreWork[T], timeout: float = _TIMEOUT) -> T:
    from gateway.errors import DoorError, StoreAway
    from gateway.settings import without_credentials
    from gateway.store.redis import Store

    store = Store(_located(redis_url), timeout)
    try:
        return await work(store)
    except StoreAway as fault:
        raise CliError(f"Redis does not answer at {without_credentials(redis_url)} ({fault.__cause__}).") from fault
    except DoorError as fault:
        raise CliError(str(fault)) from fault
    finally:
        await store.aclose()


def _located(redis_url: str) -> RedisAt:
    """With the passwords that a gateway is given by the same variables."""
    from gateway.settings import SettingsError, load

    names = ("SEKISHO_REDIS_PASSWORD", "SEKISHO_REDIS_SENTINEL_PASSWORD")
    given = {name: os.environ[name] for name in names if name in os.environ}
    try:
        return load(None, given, redis_url=redis_url).redis
    except SettingsError as fault:
        raise CliError(f"this Redis cannot be reached:\n  {fault}", exit_code=2) from fault


def _reached(data_dir: Path | None, redis_url: str | None) -> tuple[Place, str]:
    folder = datadir.chosen(data_dir, os.environ)
    place = Place(folder, datadir.socket_dir(folder))
    if redis_url is None and not place.valkey_socket.exists():
        raise CliError(
            f"no `sekisho up` runs on the data folder {folder}; start it, or name another folder (--data-dir) "
            "or the Redis to use (--redis-url)."
        )
    return place, redis_url or place.redis_url


def actor() -> Actor:
    """Whoever runs the command, for the audit trail: their name on this machine."""
    from gateway.store.directory import Actor

    return Actor("cli", getpass.getuser(), "cli", socket.gethostname())
