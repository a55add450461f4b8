"""`sekisho groups`: what belonging to a group of the provider gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import Json, Limit, gathered, in_office, show_list, show_one
from gateway.scope import Role

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import GroupShown, Page

Group = Annotated[str, typer.Argument(metavar="NAME", help="As the provider's claim spells it.")]

app = typer.Typer(no_args_is_help=True, help="Say what belonging to a group gives.")


@app.command("list")
def list_(
    limit: Limit = 1000, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """The groups that give something."""
    from gateway.identity.administration import groups
    from gateway.identity.administration.forms import Paging, read_fields

    async def work(office: Office) -> Page[GroupShown]:
        async def read(after: str, count: int) -> Page[GroupShown]:
            return await groups.listed(office, read_fields({"after": after, "limit": count}, Paging))

        return await gathered(read, limit)

    columns = ("id", "role", "tenant", "description")
    show_list(in_office(data_dir, redis_url, work), columns, as_json)


@app.command("set")
def set_(
    group: Group,
    role: Annotated[Role | None, typer.Option(help="Of its members; the highest of several counts.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of its members.")] = None,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Say what belonging to a group gives, in place of what was said before."""
    from gateway.identity.administration import groups
    from gateway.identity.administration.forms import GroupPut, read_fields

    fields = {"role": role, "tenant": tenant, "description": description}

    async def work(office: Office) -> GroupShown:
        return await groups.put(office, actor(), group, read_fields(fields, GroupPut))

    show_one(in_office(data_dir, redis_url, work), as_json)


@app.command()
def delete(group: Group, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Belonging to it gives nothing any more."""
    from gateway.identity.administration import groups

    in_office(data_dir, redis_url, lambda office: groups.delete(office, actor(), group))
    plain(f"{group} is deleted.")
