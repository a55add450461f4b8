"""`sekisho audit`: who changed what, when, from where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.directory import RedisUrl
from gateway.cli.office import Json, Limit, gathered, in_office, show_list

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import AuditEntry, Page

app = typer.Typer(no_args_is_help=True, help="Read the audit trail.")


@app.command("list")
def list_(
    action: Annotated[str, typer.Option(help="Such as key.create.")] = "",
    target: Annotated[str, typer.Option(help="Such as key:ID.")] = "",
    by: Annotated[str, typer.Option("--actor", help="The subject of whoever did it, or cli.")] = "",
    limit: Limit = 50,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Administrative changes, newest first; before and after are in --json."""
    from gateway.identity.administration import trail
    from gateway.identity.administration.forms import TrailQuery, read_fields

    async def work(office: Office) -> Page[AuditEntry]:
        async def read(before: str, count: int) -> Page[AuditEntry]:
            fields = {"before": before, "limit": count, "action": action, "target": target, "actor": by}
            return await trail.listed(office, read_fields(fields, TrailQuery))

        return await gathered(read, limit)

    show_list(in_office(data_dir, redis_url, work), ("at", "actor", "action", "target"), as_json)
