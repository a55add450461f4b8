"""What the administrative commands share: the office that the admin API works with too, and how answers are shown."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Column, Table
from rich.text import Text

from gateway.cli import datadir
from gateway.cli.console import note, out, plain
from gateway.cli.directory import checked_server_key, with_store

if TYPE_CHECKING:
    from msgspec import Struct

    from gateway.identity.administration.office import Office
    from gateway.identity.administration.views import Page
    from gateway.store.redis import Store

T = TypeVar("T")
V = TypeVar("V", bound="Struct")
GATEWAY = "http://127.0.0.1:8080"
GatewayUrl = Annotated[str, typer.Option(envvar="SEKISHO_URL", help="Where the gateway listens.")]
Json = Annotated[bool, typer.Option("--json", help="As the admin API answers.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")]
_TIMES = frozenset({"at", "created", "ends", "expires", "last_seen", "last_used", "previous_until", "seen"})


def in_office(data_dir: Path | None, redis_url: str | None, work: Callable[[Office], Awaitable[T]]) -> T:
    """What is refused is told as the admin API tells it."""
    return in_office_on_store(data_dir, redis_url, lambda office, store: work(office))


def in_office_on_store(
    data_dir: Path | None, redis_url: str | None, work: Callable[[Office, Store], Awaitable[T]]
) -> T:
    """For what is counted beside what is administered."""
    folder = datadir.chosen(data_dir, os.environ)

    async def on_store(store: Store) -> T:
        return await work(open_office(store, await checked_server_key(store, folder)), store)

    return with_store(data_dir, redis_url, on_store)


def open_office(store: Store, server_key: bytes) -> Office:
    from gateway.chat.forgetting import Forgetting
    from gateway.identity.administration.office import Office
    from gateway.identity.api_keys import KeyRing
    from gateway.identity.sessions import Sessions
    from gateway.store.directory import Directory
    from gateway.store.records import Records
    from gateway.store.sealing import Sealer

    directory = Directory(Records(store))
    # How long sessions live is for those who begin them: none is begun here.
    sessions = Sessions(store, Sealer(server_key, "tokens of sessions"), idle_seconds=60, seconds=60)
    return Office(directory, KeyRing(directory, server_key), sessions, Forgetting(store).all_of)


async def gathered(read: Callable[[str, int], Awaitable[Page[V]]], limit: int) -> Page[V]:
    """At most `limit`, of as many answers as that takes."""
    from gateway.identity.administration.office import page

    found: list[V] = []
    following: str | None = ""
    while following is not None and len(found) < limit:
        answer = await read(following, min(1000, limit - len(found)))
        found += answer.data
        following = answer.next
    return page(found, following)


def show_list(page: Page[V], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        show_json(page)
        return
    # An id that is cut in two can be neither found nor copied.
    table = Table(*(Column(column.replace("_", " "), no_wrap=column == "id") for column in columns))
    for row in page.data:
        table.add_row(*(cell(column, getattr(row, column)) for column in columns))
    out.print(table)
    if page.has_more:
        note("There are more; --limit shows more of them.")


def show_one(view: Struct, as_json: bool) -> None:
    if as_json:
        show_json(view)
        return
    table = Table(show_header=False)
    for name in view.__struct_fields__:
        if name != "object":
            table.add_row(name.replace("_", " "), cell(name, getattr(view, name)))
    out.print(table)


def show_json(value: Any) -> None:
    import msgspec

    plain(msgspec.json.encode(value).decode())


def parts(given: Sequence[str] | None) -> list[str] | None:
    """An option that may be repeated and may hold several, with commas between; None where it was not given."""
    if given is None:
        return None
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def cell(name: str, value: Any) -> Text:
    """Of a table. Names come from providers: none may colour the table or move the cursor."""
    text = _spoken(name, value)
    return Text("".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text), overflow="fold")


def _spoken(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in _TIMES:
        return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    if isinstance(value, (tuple, list)):
        return ("\n" if name == "why" else ", ").join(str(part) for part in value) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "actor":
        return f"{value.name} ({value.via}, {value.address})"
    if hasattr(value, "__struct_fields__"):
        return "\n".join(f"{field}: {_spoken(field, getattr(value, field))}" for field in value.__struct_fields__)
    return str(value)
