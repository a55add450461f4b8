"""`sekisho usage`: requests, tokens and cost, by user, service account, group, model, key or day."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Column, Table

from gateway.cli import datadir
from gateway.cli.console import CliError, note, out, plain
from gateway.cli.directory import RedisUrl
from gateway.cli.office import Json, cell, in_office_on_store, show_json
from gateway.cli.serve import Config, load_settings

if TYPE_CHECKING:
    from gateway.identity.administration.office import Office
    from gateway.store.redis import Store
    from gateway.usage.report import Sums, UsageShown

_COLUMNS = {
    "requests": "requests",
    "failed": "failed",
    "prompt_tokens": "prompt",
    "cached_tokens": "cached",
    "completion_tokens": "output",
    "cost": "cost",
}
By = Literal["user", "service_account", "group", "model", "key", "day"]


def usage(
    first: Annotated[str | None, typer.Option("--from", help="YYYY-MM-DD (UTC). [default: the month's first]")] = None,
    last: Annotated[str | None, typer.Option("--to", help="YYYY-MM-DD (UTC). [default: today]")] = None,
    by: Annotated[By, typer.Option(help="What to sum by.")] = "user",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows; the rest is summed up.")] = 1000,
    as_csv: Annotated[bool, typer.Option("--csv", help="For a spreadsheet.")] = False,
    config: Config = None,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Show what was used, by whom, and what it cost at the prices of the settings."""
    from gateway.identity.administration import members
    from gateway.identity.administration.forms import UsageQuery, read_fields
    from gateway.usage import report, sheet

    if as_csv and as_json:
        raise CliError("--csv and --json contradict each other; give one of them.", exit_code=2)
    settings = load_settings(config)
    days = {name: day for name, day in (("from", first), ("to", last)) if day is not None}

    async def work(office: Office, store: Store) -> UsageShown:
        query = read_fields(days | {"by": by, "limit": limit}, UsageQuery)
        asked = report.asked(query.by, query.first, query.last, query.limit)
        named = partial(members.groups_of, office), partial(members.names_of, office)
        return await report.report(store, asked, settings.prices, *named)

    found = in_office_on_store(data_dir, redis_url, work)
    if as_json:
        show_json(found)
    elif as_csv:
        plain(sheet.as_csv(found).rstrip("\r\n"))
    else:
        _show(found)


def _show(found: UsageShown) -> None:
    numbers = (Column(name, justify="right", no_wrap=True) for name in _COLUMNS.values())
    table = Table(Column(found.by.replace("_", " "), overflow="fold"), *numbers)
    rows: list[tuple[str, Sums]] = [
        ("\n".join(filter(None, (row.name, row.id or "(none)"))), row) for row in found.data
    ]
    rows += [("(others)", found.others)] if found.others else []
    for label, sums in (*rows, ("total", found.total)):
        table.add_row(*(cell("", value) for value in (label, *(getattr(sums, name) for name in _COLUMNS))))
    out.print(table)
    note(f"{found.first} to {found.last}, UTC.")
