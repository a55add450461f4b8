"""What every administrative act works with, and how long lists are read: page by page, never all at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from gateway.identity.administration.views import Page
from gateway.identity.api_keys import KeyRing
from gateway.identity.sessions import Sessions
from gateway.store.directory import Directory
from gateway.store.record import AnyRecord

R = TypeVar("R")
V = TypeVar("V")

# One answer looks at no more than this many records, however few of them are wanted.
MOST_LOOKED_AT = 5000
# Read a few at a time, so that nobody's stream waits for a list.
_CHUNK = 100


class Office(NamedTuple):
    directory: Directory
    key_ring: KeyRing
    sessions: Sessions
    forget: Callable[[str], Awaitable[None]]  # what is kept of a person elsewhere, by subject


async def records(
    office: Office,
    kind: type[AnyRecord],
    after: str,
    limit: int,
    wanted: Callable[[AnyRecord], bool] | None = None,
) -> tuple[list[AnyRecord], str | None]:
    """At most `limit` of them, and where to go on: None at the end."""

    async def read(start: str, count: int) -> list[AnyRecord]:
        return await office.directory.page(kind, start, count)

    return await some_of(read, lambda record: record.id, after, limit, wanted)


async def some_of(
    read: Callable[[str, int], Awaitable[list[R]]],
    place: Callable[[R], str],
    start: str,
    limit: int,
    wanted: Callable[[R], bool] | None,
) -> tuple[list[R], str | None]:
    found: list[R] = []
    looked_at = 0
    while looked_at < MOST_LOOKED_AT:
        chunk = await read(start, _CHUNK if wanted else min(limit + 1, _CHUNK))
        if not chunk:
            return found, None
        for item in chunk:
            if wanted is None or wanted(item):
                if len(found) == limit:
                    return found, start
                found.append(item)
            start = place(item)
        looked_at += len(chunk)
    return found, start


def page(data: list[V], following: str | None) -> Page[V]:
    return Page(data=data, has_more=following is not None, next=following)
