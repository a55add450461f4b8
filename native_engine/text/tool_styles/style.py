"""What a style of tool calls is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from native_engine.text.tool_calls import CallReader


@dataclass(frozen=True)
class ToolStyle:
    """How a family of models writes calls: opening, then head, arguments and tail of each, joined, then closing.

    `taught` is found in the source of a chat template that teaches the style. `trigger`, which `opening` or else
    `head` begins with, is the first text that nothing but a call has; `at_start`: if the answer begins with it. In
    `head` the call's name takes the place of `{name}`, in quotes where `quotes_name`. Where text is
    marked too, by `text_head`, `plain_reader` reads the answers to requests without tools.
    """

    name: str
    taught: re.Pattern[str]
    trigger: str
    head: str
    tail: str
    reader: Callable[[], CallReader]
    plain_reader: Callable[[], CallReader] | None = None
    text_head: str = ""
    opening: str = ""
    joint: str = ""
    closing: str = ""
    marks: tuple[str, ...] = ()  # that are tokens of their own in a vocabulary, where it has them
    at_start: bool = False
    quotes_name: bool = True
    short_ids: bool = False
