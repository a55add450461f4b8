"""`sekisho sessions`: who is signed in with a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir
from gateway.cli.console import plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import Json, Limit, gathered, in_office, show_list

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import Page, SessionShown

app = typer.Typer(no_args_is_help=True, help="See and end browser sessions; those of one person: `users sessions`.")


@app.command("list")
def list_(
    limit: Limit = 1000, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """Everybody's browser sessions."""
    from gateway.identity.administration import sessions
    from gateway.identity.administration.forms import Paging, read_fields

    async def work(office: Office) -> Page[SessionShown]:
        async def read(after: str, count: int) -> Page[SessionShown]:
            return await sessions.listed(office, read_fields({"after": after, "limit": count}, Paging))

        return await gathered(read, limit)

    columns = ("id", "user", "name", "created", "seen", "ends", "address")
    show_list(in_office(data_dir, redis_url, work), columns, as_json)


@app.command()
def end(
    session: Annotated[str, typer.Argument(metavar="ID", help="As `sessions list` shows it.")],
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """End a session, everywhere within a second."""
    from gateway.identity.administration import sessions

    in_office(data_dir, redis_url, lambda office: sessions.end(office, actor(), session))
    plain(f"{session} is ended.")
