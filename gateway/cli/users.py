"""`sekisho users`: the people who may come in, what they may do and why, and their sessions."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import CliError, plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import Json, Limit, gathered, in_office, parts, show_list, show_one
from gateway.scope import Role

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import Page, UserShown

User = Annotated[str, typer.Argument(metavar="ID", help="As `users list` shows it.")]


class Settable(StrEnum):
    ROLE = "role"
    TENANT = "tenant"
    GROUPS = "groups"


class UserState(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


app = typer.Typer(no_args_is_help=True, help="See people, what they may do and why; set it; keep them out.")


@app.command("list")
def list_(
    search: Annotated[str, typer.Option(help="Part of a name, e-mail address or subject.")] = "",
    state: Annotated[UserState | None, typer.Option(help="Those alone.")] = None,
    limit: Limit = 1000,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Who was here, or was made before coming."""
    from gateway.identity.administration import users
    from gateway.identity.administration.forms import UserQuery, read_fields

    async def work(office: Office) -> Page[UserShown]:
        async def read(after: str, count: int) -> Page[UserShown]:
            fields = {"after": after, "limit": count, "search": search, "state": state}
            return await users.listed(office, read_fields(fields, UserQuery))

        return await gathered(read, limit)

    columns = ("id", "name", "email", "role", "tenant", "disabled", "problem", "last_seen")
    show_list(in_office(data_dir, redis_url, work), columns, as_json)


@app.command()
def create(
    issuer: Annotated[str, typer.Argument(metavar="ISSUER", help="One of the settings' issuers, spelled alike.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="What the provider calls the person: `sub`.")],
    name: Annotated[str, typer.Option(help="What people call them.")] = "",
    email: Annotated[str, typer.Option(help="For people to recognise; nothing is decided by it.")] = "",
    role: Annotated[Role | None, typer.Option(help="Goes before what sign-in decides.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Goes before what sign-in decides.")] = None,
    groups: Annotated[
        list[str] | None, typer.Option(help="In place of those that the provider names, with commas between.")
    ] = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make somebody before the first sign-in, so that the right role waits for them."""
    from gateway.identity.administration import users
    from gateway.identity.administration.forms import UserNew, read_fields

    given: dict[str, object] = {"issuer": issuer, "subject": subject, "name": name, "email": email}
    given |= {"set_role": role, "set_tenant": tenant, "set_groups": parts(groups)}

    async def work(office: Office) -> UserShown:
        return await users.create(office, actor(), read_fields(given, UserNew))

    show_one(in_office(data_dir, redis_url, work), as_json)


@app.command()
def show(user: User, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """One person: role, tenant and groups as they hold now, and why."""
    from gateway.identity.administration import users

    show_one(in_office(data_dir, redis_url, lambda office: users.shown(office, user)), as_json)


@app.command("set")
def set_(
    user: User,
    role: Annotated[Role | None, typer.Option(help="Goes before what sign-in decides.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Goes before what sign-in decides.")] = None,
    groups: Annotated[
        list[str] | None, typer.Option(help="In place of those that the provider names, with commas between.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What people call them.")] = None,
    reset: Annotated[list[Settable] | None, typer.Option(help="Leave it to sign-in again.")] = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Set role, tenant, groups or name; `--groups ""` is no group at all."""
    given = {"set_role": role, "set_tenant": tenant, "set_groups": parts(groups), "name": name}
    fields: dict[str, object] = {field: value for field, value in given.items() if value is not None}
    for part in reset or ():
        if f"set_{part}" in fields:
            raise CliError(f"--{part} and --reset {part} contradict each other; give one of them.", exit_code=2)
        fields[f"set_{part}"] = None
    if not fields:
        raise CliError("nothing to set: give --role, --tenant, --groups, --name or --reset.", exit_code=2)
    show_one(_changed(user, fields, data_dir, redis_url), as_json)


@app.command()
def disable(user: User, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Keep somebody out, with all their keys and sessions, everywhere within a second."""
    show_one(_changed(user, {"disabled": True}, data_dir, redis_url), as_json)


@app.command()
def enable(user: User, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Let somebody in again."""
    show_one(_changed(user, {"disabled": False}, data_dir, redis_url), as_json)


@app.command()
def delete(user: User, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Forget somebody, keys and sessions too. To keep somebody out, disable."""
    from gateway.identity.administration import users

    in_office(data_dir, redis_url, lambda office: users.delete(office, actor(), user))
    plain(f"{user} is deleted.")


@app.command()
def sessions(user: User, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """The browsers that somebody is signed in with."""
    from gateway.identity.administration import sessions as of

    page = in_office(data_dir, redis_url, lambda office: of.of_user(office, user))
    show_list(page, ("id", "created", "seen", "ends", "address", "agent"), as_json)


@app.command("sign-out")
def sign_out(user: User, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """End every session of somebody."""
    from gateway.identity.administration import sessions as of

    show_one(in_office(data_dir, redis_url, lambda office: of.sign_out(office, actor(), user)), as_json)


def _changed(user: str, fields: dict[str, object], data_dir: datadir.Option, redis_url: RedisUrl) -> UserShown:
    from gateway.identity.administration import users
    from gateway.identity.administration.forms import UserChange, read_fields

    async def work(office: Office) -> UserShown:
        return await users.change(office, actor(), user, read_fields(fields, UserChange))

    return in_office(data_dir, redis_url, work)
