"""`sekisho queue`: who runs and who waits; end a request, change its class, drain a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gateway.cli import datadir
from gateway.cli.console import note, out, plain
from gateway.cli.directory import RedisUrl, actor
from gateway.cli.office import Json, cell, in_office_on_store, show_json

if TYPE_CHECKING:
    from msgspec import Struct

    from gateway.queueing.administration import DrainShown, LineShown, QueueShown, RequestShown
    from gateway.store.directory import Directory
    from gateway.store.redis import Store

T = TypeVar("T")
RequestId = Annotated[str, typer.Argument(metavar="ID", help="As `queue list` shows it.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="As requests name it.")]
_COLUMNS = ("id", "state", "class", "place", "turn in", "backend", "subject", "model", "tokens", "since")

app = typer.Typer(no_args_is_help=True, help="See who runs and who waits; end, move and hold off requests.")


@app.command("list")
def list_(
    subject: Annotated[str, typer.Option(help="Of one alone, as `usage` shows it.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most, running and waiting each.")] = 100,
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Who runs and who waits in each line, in order of their places."""
    from gateway.identity.administration.forms import QueueQuery, read_fields
    from gateway.queueing import administration

    query = read_fields({"subject": subject, "limit": limit}, QueueQuery)

    async def work(store: Store, directory: Directory) -> QueueShown:
        return await administration.look(store, directory, query.limit, query.subject)

    found = _on_queue(data_dir, redis_url, work)
    if as_json:
        show_json(found)
        return
    for line in found.lines:
        _show(line)
    for model in found.draining:
        plain(f"{model.id} is draining: it takes nobody new.")
    if not found.lines:
        note("No gateway has told of a line in the last minute.")


@app.command()
def cancel(
    request_id: RequestId, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None
) -> None:
    """End a request that runs or waits, at whichever gateway; what it used is booked."""
    from gateway.queueing import administration

    async def work(store: Store, directory: Directory) -> RequestShown:
        return await administration.cancel(store, directory, actor(), request_id)

    ended = _on_queue(data_dir, redis_url, work)
    _tell(ended, f"{request_id} is cancelled.", as_json)


@app.command("class")
def class_(
    request_id: RequestId,
    name: Annotated[str, typer.Argument(metavar="CLASS", help="interactive, api or batch.")],
    as_json: Json = False,
    data_dir: datadir.Option = None,
    redis_url: RedisUrl = None,
) -> None:
    """Let a request that waits do so in another class."""
    from gateway.identity.administration.forms import QueueChange, read_fields
    from gateway.queueing import administration

    async def work(store: Store, directory: Directory) -> RequestShown:
        form = read_fields({"class": name}, QueueChange)
        return await administration.change_class(store, directory, actor(), request_id, form.klass)

    moved = _on_queue(data_dir, redis_url, work)
    _tell(moved, f"{request_id} waits as {moved.klass}, at place {moved.place or '?'}.", as_json)


@app.command()
def drain(model: Model, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """Nobody new for a model, everywhere within a second: who waits is refused too, who runs may finish."""
    from gateway.queueing import administration

    async def work(store: Store, directory: Directory) -> DrainShown:
        return await administration.drain(store, directory, actor(), model)

    _tell(_on_queue(data_dir, redis_url, work), f"{model} takes nobody new.", as_json)


@app.command()
def undrain(model: Model, as_json: Json = False, data_dir: datadir.Option = None, redis_url: RedisUrl = None) -> None:
    """A drained model takes requests again."""
    from gateway.queueing import administration

    async def work(store: Store, directory: Directory) -> DrainShown:
        return await administration.undrain(store, directory, actor(), model)

    _tell(_on_queue(data_dir, redis_url, work), f"{model} takes requests again.", as_json)


def _on_queue(data_dir: Path | None, redis_url: str | None, work: Callable[[Store, Directory], Awaitable[T]]) -> T:
    return in_office_on_store(data_dir, redis_url, lambda office, store: work(store, office.directory))


def _tell(view: Struct, text: str, as_json: bool) -> None:
    if as_json:
        show_json(view)
    else:
        plain(text)


def _show(line: LineShown) -> None:
    from rich.table import Column, Table

    for backend in line.backends:
        kv_tokens = "" if backend.kv_tokens is None else f" of {backend.kv_tokens}"
        cache = f"{backend.kv_tokens_in_use}{kv_tokens} tokens of cache in use"
        plain(f"{backend.name}: {backend.running} running, room for {backend.capacity}, {cache}")
    counts = ", ".join(f"{klass} {count.running}/{count.waiting}" for klass, count in line.classes.items())
    plain(f"running/waiting: {counts}")
    table = Table(*(Column(column, no_wrap=column == "id") for column in _COLUMNS))
    for one in line.running + line.waiting:
        eta = None if one.eta_seconds is None else f"{one.eta_seconds:.1f} s"
        values = (one.id, one.state, one.klass, one.place, eta, one.backend, one.subject, one.model, one.tokens)
        since = cell("created", one.running_since or one.waiting_since)
        table.add_row(*(cell("", value) for value in values), since)
    if table.row_count:
        out.print(table)
    if line.has_more:
        note("There are more; --limit shows more of them.")
