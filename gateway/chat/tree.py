"""The tree of a conversation's messages: branches, what an engine is sent of one, a title. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.chat.records import LONGEST_TITLE, Message

_TITLE_CHARACTERS = 60


_TIME = slice(0, len("msg_") + 12)  # of an id


def ordered(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Oldest first; a question and the answer that began in the same millisecond, in this order."""
    return tuple(sorted(messages, key=lambda message: (message.id[_TIME], message.role == "assistant")))


def branch(messages: Iterable[Message], leaf: str | None) -> list[Message]:
    """From the root to `leaf`. Whatever is stored, it ends: a message stands in it once."""
    by_id: Mapping[str, Message] = {message.id: message for message in messages}
    found: list[Message] = []
    seen: set[str] = set()
    while leaf is not None and leaf in by_id and leaf not in seen:
        seen.add(leaf)
        found.append(by_id[leaf])
        leaf = by_id[leaf].parent
    return found[::-1]


def prompt(system: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """As the official API takes it. What a model thought is its own affair, and is not sent back."""
    instructed = [{"role": "system", "content": system}] if system else []
    return instructed + [{"role": message.role, "content": message.content} for message in messages]


def title_of(question: str) -> str:
    """The first words of the first line that says something; cut between words where the language has any between."""
    line = next((text for text in map(str.strip, question.splitlines()) if text), "")
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in line[:LONGEST_TITLE]).split())
    if len(words) <= _TITLE_CHARACTERS:
        return words
    cut = words[:_TITLE_CHARACTERS]
    whole, blank, rest = cut.rpartition(" ")
    return (whole if blank and len(rest) < _TITLE_CHARACTERS // 3 else cut).rstrip() + "…"
