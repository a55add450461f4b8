"""`sekisho keys`: make, list, rotate and revoke API keys."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import CliError, plain
from gateway.cli.directory import RedisUrl, actor, on_directory
from gateway.cli.office import Json, Limit, gathered, in_office, parts, show_json, show_list, show_one
from gateway.cli.parts import Place

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import KeyMade, KeyShown, Page
    from gateway.identity.api_keys import KeyRing
    from gateway.store.directory import Directory

KeyId = Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")]
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class KeyState(StrEnum):
    GOOD = "good"
    EXPIRED = "expired"


app = typer.Typer(no_args_is_help=True, help="Make, list, rotate and revoke API keys.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    owner: Annotated[
        str | None,
        typer.Option(help="user:ID or service_account:ID. [default: a service account of the key's name, made for it]"),
    ] = None,
    models: Annotated[list[str] | None, typer.Option(help="Names with commas between, * for any letters.")] = None,
    endpoints: Annotated[
        list[str] | None,
        typer.Option(
            help="Of chat, completions, responses, embeddings, rerank, files, batches, models, metrics, admin. "
            "[default: all but the last two]"
        ),
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="For all that its owner may do; without --owner: all.")
    ] = False,
    expires: Annotated[str | None, typer.Option(help="Such as 90d, 12h or 2030-12-31. [default: never]")] = None,
    allow_ip: Annotated[list[str] | None, typer.Option(help="Addresses and networks that it may be used from.")] = None,
    on_behalf_of: Annotated[bool, typer.Option("--on-behalf-of", help="May name the person it asks for.")] = False,
    forwards_users: Annotated[
        bool, typer.Option("--forwards-users", help="For an Open WebUI that signs whom it forwards.")
    ] = False,
    queue_class: Annotated[
        str | None,
        typer.Option("--class", help="Where its requests wait: interactive, api or batch. [default: api]"),
    ] = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    from gateway.identity.administration import keys
    from gateway.identity.administration.forms import KeyNew, read_fields

    if admin and endpoints is not None:
        raise CliError("--admin and --endpoints contradict each other; give one of them.", exit_code=2)
    fields: dict[str, object] = {"name": name, "models": parts(models), "allowed_ips": parts(allow_ip) or []}
    fields |= {"on_behalf_of": on_behalf_of, "forwards_users": forwards_users, "expires": _moment(expires)}
    fields["queue_class"] = queue_class
    if admin or endpoints is not None:
        fields["endpoints"] = parts(endpoints)

    async def work(office: Office) -> KeyMade:
        form = read_fields(fields | {"owner": owner or "service_account:x"}, KeyNew)  # before anything is made
        if owner is None:
            form = read_fields(fields | {"owner": await _own_account(office, name, admin)}, KeyNew)
        return await keys.create(office, actor(), form)

    _show_new(in_office(data_dir, redis_url, work), as_json)


@app.command("list")
def list_(
    owner: Annotated[str, typer.Option(help="user:ID or service_account:ID.")] = "",
    state: Annotated[KeyState | None, typer.Option(help="Those alone.")] = None,
    limit: Limit = 1000,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """The keys that exist; never the keys themselves."""
    from gateway.identity.administration import keys
    from gateway.identity.administration.forms import KeyQuery, read_fields

    async def work(office: Office) -> Page[KeyShown]:
        async def read(after: str, count: int) -> Page[KeyShown]:
            fields = {"after": after, "limit": count, "owner": owner, "state": state}
            return await keys.listed(office, read_fields(fields, KeyQuery))

        return await gathered(read, limit)

    columns = ("id", "name", "owner", "created", "last_used", "expires")
    show_list(in_office(data_dir, redis_url, work), columns, as_json)


@app.command()
def show(key_id: KeyId, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """One key's owner, limits and last use."""
    from gateway.identity.administration import keys

    show_one(in_office(data_dir, redis_url, lambda office: keys.shown(office, key_id)), as_json)


@app.command()
def rotate(
    key_id: KeyId,
    overlap_seconds: Annotated[int, typer.Option(help="How long the old secret still opens; 0 if it leaked.")] = 3600,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """A new secret under the same id, shown once."""
    from gateway.identity.administration import keys
    from gateway.identity.administration.forms import Rotation, read_fields

    async def work(office: Office) -> KeyMade:
        return await keys.rotate(office, actor(), key_id, read_fields({"overlap_seconds": overlap_seconds}, Rotation))

    _show_new(in_office(data_dir, redis_url, work), as_json)


@app.command()
def revoke(key_id: KeyId, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """End a key, everywhere within a second."""
    from gateway.identity.administration import keys

    in_office(data_dir, redis_url, lambda office: keys.delete(office, actor(), key_id))
    plain(f"{key_id} is revoked.")


def _show_new(made: KeyMade, as_json: bool) -> None:
    if as_json:
        show_json(made)
    else:
        plain(made.key)


async def _own_account(office: Office, name: str, admin: bool) -> str:
    """A service account of the key's name: the one that is there, or a new one."""
    from gateway.errors import Conflict
    from gateway.identity.administration import service_accounts
    from gateway.identity.administration.forms import ServiceAccountNew

    form = ServiceAccountNew(name=name, role="admin" if admin else "service")
    try:
        account = await service_accounts.create(office, actor(), form)
    except Conflict:
        account = await service_accounts.shown(office, service_accounts.id_from(name))
        if admin and account.role != "admin":
            raise Conflict(
                f"There is a service account {account.id!r} already, of the role {account.role}. "
                f"Name the key otherwise, or make this a key of it: --owner service_account:{account.id}."
            ) from None
    return f"service_account:{account.id}"


def _moment(text: str | None) -> int | None:
    """Unix seconds."""
    if text is None:
        return None
    if span := re.fullmatch(r"(\d{1,6})([mhdw])", text, re.ASCII):
        return int(time.time()) + int(span[1]) * _SECONDS[span[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise CliError(
            f"--expires is {text!r}; expected a span such as 90d or 12h, or a day such as 2030-12-31.", exit_code=2
        ) from None


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
