"""A person's conversations, page by page, or those of them that hold a text. Looks at so much at once and no more."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import NamedTuple

from gateway.chat.book import Book, Place
from gateway.chat.records import Conversation, Summary
from gateway.errors import BadRequest

_CHUNK = 50
# What one answer reads and decrypts at most; whoever searches goes on where it ended.
_MOST_BYTES = 8 * 1024 * 1024


class Listed(NamedTuple):
    data: list[Summary]
    next: str | None  # where to go on; None at the end


async def listed(book: Book, subject: str, search: str, after: str, limit: int) -> Listed:
    """At most `limit`, the newest first. A search may find fewer, even none, while there is more to search.

    Raises BadRequest and StoreAway.
    """
    places = await book.places(subject)
    if after:
        start = _place(after)
        places = [place for place in places if place < start]
    sought = _folded(search)
    return await (_searched(book, places, sought, limit) if sought else _page(book, places, limit))


async def _page(book: Book, places: list[Place], limit: int) -> Listed:
    found: list[Summary] = []
    for start in range(0, len(places), _CHUNK):
        some = places[start : start + _CHUNK]
        for place, summary in zip(some, await book.summaries(some), strict=True):
            if summary is not None:
                found.append(summary)
            if len(found) == limit:
                return Listed(found, _name(place) if place != places[-1] else None)
    return Listed(found, None)


async def _searched(book: Book, places: list[Place], sought: str, limit: int) -> Listed:
    found: list[Summary] = []
    read = 0
    async for place, conversation, size in book.whole(places):
        read += size
        if await asyncio.to_thread(_holds, conversation, sought):
            found.append(conversation.summary())
        if len(found) == limit or read > _MOST_BYTES:
            return Listed(found, _name(place) if place != places[-1] else None)
    return Listed(found, None)


def _holds(conversation: Conversation, sought: str) -> bool:
    texts = (conversation.title, *(message.content for message in conversation.messages))
    return any(sought in _folded(text) for text in texts)


def _folded(text: str) -> str:
    """So that case does not count, nor whether letters are as wide as Japanese keyboards write them."""
    return unicodedata.normalize("NFKC", text).casefold()


def _name(place: Place) -> str:
    return f"{place.updated_ms}.{place.id}"


def _place(after: str) -> Place:
    updated_ms, _, conversation_id = after.partition(".")
    if not updated_ms.isascii() or not updated_ms.isdigit():
        raise BadRequest("Expected `next` of the answer before this one.", param="after", code="invalid_value")
    return Place(int(updated_ms), conversation_id)
