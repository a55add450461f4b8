"""What readers of an answer are told, and how it is written as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from gateway.chat.records import Fault, Message

Name = Literal["started", "queue", "delta", "notice", "done", "error"]
LAST: frozenset[Name] = frozenset({"done", "error"})


class Event(msgspec.Struct, frozen=True):
    """`data` is JSON. An event's number is its place among those of its answer, from 1."""

    name: Name
    data: msgspec.Raw


class Numbered(NamedTuple):
    number: int
    event: Event


class _Started(msgspec.Struct):
    message: Message


class _Delta(msgspec.Struct):
    text: str = ""
    reasoning: str = ""


def event(name: Name, **data: Any) -> Event:
    return Event(name, msgspec.Raw(msgspec.json.encode(data)))


def failure(fault: Fault) -> Event:
    return event("error", error=fault)


def framed(some: Iterable[Numbered]) -> bytes:
    return b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (number, told.name.encode(), bytes(told.data)) for number, told in some
    )


def said(events: Iterable[Event]) -> Message | None:
    """The message as its readers have it by now; None where none was told that it has begun."""
    message: Message | None = None
    text, reasoning = [], []
    for told in events:
        if told.name == "started":
            message = msgspec.json.decode(told.data, type=_Started).message
        elif told.name == "delta":
            delta = msgspec.json.decode(told.data, type=_Delta)
            text.append(delta.text)
            reasoning.append(delta.reasoning)
    if message is None:
        return None
    whole = message.content + "".join(text), message.reasoning + "".join(reasoning)
    return msgspec.structs.replace(message, content=whole[0], reasoning=whole[1])
