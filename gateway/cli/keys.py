"""`sekisho keys`: make, list and revoke API keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from gateway.cli import datadir
from gateway.cli.console import out, plain
from gateway.cli.directory import RedisUrl, actor, on_directory, with_directory
from gateway.cli.parts import Place

if TYPE_CHECKING:
    from gateway.identity.api_keys import KeyRing
    from gateway.identity.directory import Directory
    from gateway.identity.records import Key

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


class Role(StrEnum):
    SERVICE = "service"
    ADMIN = "admin"


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The program that will use it: a service account of this name is made.")],
    role: Annotated[Role, typer.Option(help="An admin also sees metrics and administers.")] = Role.SERVICE,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    from gateway.errors import Conflict
    from gateway.identity.api_keys import DEFAULT_ENDPOINTS
    from gateway.identity.records import Key, ServiceAccount

    async def make(directory: Directory, ring: KeyRing) -> str:
        account = ServiceAccount(id=re.sub(r"[^a-z0-9_.-]+", "-", name.lower()), name=name, role=role.value)
        try:
            await directory.create(actor(), account)
        except Conflict:
            account = await directory.find(ServiceAccount, account.id)
        endpoints = None if role is Role.ADMIN else DEFAULT_ENDPOINTS
        owner = f"{ServiceAccount.kind}:{account.id}"
        return (await ring.issue(actor(), Key(id="", digest="", owner=owner, name=name, endpoints=endpoints))).key

    plain(with_directory(data_dir, redis_url, make))


@app.command("list")
def list_(data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """The keys that exist; never the keys themselves."""
    from gateway.identity.records import Key

    async def all_keys(directory: Directory, ring: KeyRing) -> list[Key]:
        return await directory.page(Key, limit=10_000)

    table = Table("id", "name", "owner", "made")
    for record in with_directory(data_dir, redis_url, all_keys):
        made = datetime.fromtimestamp(record.created).astimezone()
        table.add_row(record.id, record.name, record.owner, made.isoformat(" ", "seconds"))
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")],
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """End a key, everywhere within a second."""
    from gateway.identity.records import Key

    async def end(directory: Directory, ring: KeyRing) -> Key:
        return await directory.delete(actor(), Key, key_id)

    with_directory(data_dir, redis_url, end)
    plain(f"{key_id} is revoked.")


async def make_first_key(place: Place, environ: Mapping[str, str]) -> str | None:
    """An admin key where there is none at all and the environment does not set one."""
    if environ.get("SEKISHO_BOOTSTRAP_KEY"):
        return None
    from gateway.identity.api_keys import local_admin
    from gateway.identity.records import Key, User

    async def make(directory: Directory, ring: KeyRing) -> str | None:
        if await directory.page(Key, limit=1):
            return None
        admin = await local_admin(directory)
        draft = Key(id="", digest="", owner=f"{User.kind}:{admin.id}", name="first admin")
        return (await ring.issue(actor(), draft)).key

    return await on_directory(place.redis_url, place.data_dir, make)
