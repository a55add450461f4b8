"""`sekisho keys`: make, list and revoke API keys, in the Redis that is named or the Valkey that `up` runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from gateway.cli import datadir
from gateway.cli.console import CliError, out, plain
from gateway.cli.parts import Place

if TYPE_CHECKING:
    from gateway.identity.api_keys import KeyRing

T = TypeVar("T")
_TIMEOUT = 5.0

RedisUrl = Annotated[str | None, typer.Option(envvar="SEKISHO_REDIS_URL", help="[default: the Valkey of `sekisho up`]")]

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    role: Annotated[Role, typer.Option(help="An admin also sees metrics and manages keys.")] = Role.USER,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    plain(_with_keys(data_dir, redis_url, lambda ring: ring.create(name, role.value)).key)


@app.command("list")
def list_(data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """The keys that exist; never the keys themselves."""
    table = Table("id", "name", "role", "made")
    for record in _with_keys(data_dir, redis_url, lambda ring: ring.list()):
        made = datetime.fromtimestamp(record.created).astimezone()
        table.add_row(record.id, record.name, record.role, made.isoformat(" ", "seconds"))
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")],
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """End a key. Gateways that looked it up a moment ago believe it for a few seconds more."""
    if not _with_keys(data_dir, redis_url, lambda ring: ring.revoke(key_id)):
        raise CliError(f"there is no key with the id {key_id!r}; `sekisho keys list` shows those that exist.")
    plain(f"{key_id} is revoked.")


async def make_first_key(place: Place, environ: Mapping[str, str]) -> str | None:
    """An admin key where there is none at all and the environment does not set one."""
    if environ.get("SEKISHO_BOOTSTRAP_KEY"):
        return None

    async def make(ring: KeyRing) -> str | None:
        return None if await ring.list() else (await ring.create("first admin", "admin")).key

    return await _on_ring(place.redis_url, place.data_dir, make)


def _with_keys(data_dir: Path | None, redis_url: str | None, work: Callable[[KeyRing], Awaitable[T]]) -> T:
    folder = datadir.chosen(data_dir, os.environ)
    place = Place(folder, datadir.socket_dir(folder))
    if redis_url is None and not place.valkey_socket.exists():
        raise CliError(
            f"no `sekisho up` runs on the data folder {folder}; start it, or name another folder (--data-dir) "
            "or the Redis to use (--redis-url)."
        )
    return asyncio.run(_on_ring(redis_url or place.redis_url, folder, work))


async def _on_ring(redis_url: str, data_dir: Path, work: Callable[[KeyRing], Awaitable[T]]) -> T:
    from gateway.errors import DoorError, StoreAway
    from gateway.identity.api_keys import KeyRing, load_server_key
    from gateway.store.redis import Store

    store = Store(redis_url, _TIMEOUT)
    try:
        return await work(KeyRing(store, load_server_key(data_dir)))
    except StoreAway as fault:
        raise CliError(f"Redis does not answer at {redis_url} ({fault.__cause__}).") from fault
    except DoorError as fault:
        raise CliError(str(fault)) from fault
    finally:
        await store.aclose()
