"""`sekisho service-accounts`: the programs that use the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import Json, Limit, gathered, in_office, parts, show_list, show_one
from gateway.scope import Role

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import Page, ServiceAccountShown

Account = Annotated[str, typer.Argument(metavar="ID", help="As `service-accounts list` shows it.")]

app = typer.Typer(no_args_is_help=True, help="Make programs known; keep them out.")


@app.command("list")
def list_(
    limit: Limit = 1000, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """The programs that are known."""
    from gateway.identity.administration import service_accounts
    from gateway.identity.administration.forms import Paging, read_fields

    async def work(office: Office) -> Page[ServiceAccountShown]:
        async def read(after: str, count: int) -> Page[ServiceAccountShown]:
            return await service_accounts.listed(office, read_fields({"after": after, "limit": count}, Paging))

        return await gathered(read, limit)

    columns = ("id", "name", "role", "tenant", "disabled", "created", "description")
    show_list(in_office(data_dir, redis_url, work), columns, as_json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What people call it.")],
    account_id: Annotated[str | None, typer.Option("--id", help="[default: made of the name]")] = None,
    role: Annotated[Role, typer.Option(help="An admin also administers.")] = "service",
    tenant: Annotated[str, typer.Option(help="Whose prompts may share cached prefixes.")] = "default",
    groups: Annotated[list[str] | None, typer.Option(help="With commas between.")] = None,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Make a program known; `keys create --owner` gives it a key."""
    from gateway.identity.administration import service_accounts
    from gateway.identity.administration.forms import ServiceAccountNew, read_fields

    fields = {"id": account_id, "name": name, "role": role, "tenant": tenant, "groups": parts(groups) or []}
    fields |= {"description": description}

    async def work(office: Office) -> ServiceAccountShown:
        return await service_accounts.create(office, actor(), read_fields(fields, ServiceAccountNew))

    show_one(in_office(data_dir, redis_url, work), as_json)


@app.command()
def disable(
    account: Account, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """Keep a program out, with all its keys, everywhere within a second."""
    _change(account, True, as_json, data_dir, redis_url)


@app.command()
def enable(
    account: Account, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """Let a program in again."""
    _change(account, False, as_json, data_dir, redis_url)


@app.command()
def delete(account: Account, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Forget a program, with all its keys."""
    from gateway.identity.administration import service_accounts

    in_office(data_dir, redis_url, lambda office: service_accounts.delete(office, actor(), account))
    plain(f"{account} is deleted.")


def _change(account: str, disabled: bool, as_json: bool, data_dir: datadir.Option, redis_url: RedisUrl) -> None:
    from gateway.identity.administration import service_accounts
    from gateway.identity.administration.forms import ServiceAccountChange

    async def work(office: Office) -> ServiceAccountShown:
        return await service_accounts.change(office, actor(), account, ServiceAccountChange(disabled=disabled))

    show_one(in_office(data_dir, redis_url, work), as_json)
