"""gpt-oss: messages in channels; a call is one to functions.NAME in the commentary, an answer one in the final channel.

The thoughts in the analysis channel are gone before this reads.
"""

from __future__ import annotations

import re
from functools import partial

from native_engine.text.markers import held_from
from native_engine.text.tool_calls import CallPiece, ObjectEnd, Read
from native_engine.text.tool_styles.style import ToolStyle

_START, _CHANNEL, _MESSAGE, _END = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
_BEGINNINGS = (_START, _CHANNEL, " to=")
_RECIPIENT = re.compile(r"to=functions\.([\w.-]+)")


class HarmonyReader:
    """`calls`: whether there are tools; without them a call is text."""

    def __init__(self, *, calls: bool = True) -> None:
        self.started = 0
        self.complete = 0
        self._calls = calls
        self._held = ""
        self._next = self._between
        self._end = ObjectEnd()

    def push(self, text: str) -> Read:
        self._held += text
        read = Read("", [])
        while (step := self._next()) is not None:  # each state takes what it can, until one wants more text
            read = Read(read.text + step.text, read.calls + step.calls)
        return read

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held if self._next == self._text else ""

    def _between(self) -> Read | None:
        """A message that was left open goes on without a header."""
        if any(each.startswith(self._held) for each in _BEGINNINGS):
            return None
        self._next = self._header if self._held.startswith(_BEGINNINGS) else self._text
        return Read("", [])

    def _header(self) -> Read | None:
        header, found, after = self._held.partition(_MESSAGE)
        if not found:
            return None
        self._held = after
        recipient = _RECIPIENT.search(header) if self._calls else None
        if recipient is None:
            self._next = self._text
            return Read("", [])
        self._next, self._end = self._arguments, ObjectEnd()
        self.started += 1
        return Read("", [CallPiece(self.started - 1, recipient[1], "")])

    def _text(self) -> Read | None:
        text = self._body()
        return None if text is None else Read(text, [])

    def _arguments(self) -> Read | None:
        text = self._body()
        if text is None:
            return None
        if self._end.found:  # what follows the object is nothing
            return Read("", [])
        text = text[: self._end.find(text)]
        self.complete += self._end.found
        return Read("", [CallPiece(self.started - 1, None, text)] if text else [])

    def _body(self) -> str | None:
        """What of the message may be told; None where nothing more comes of what is held."""
        before, found, after = self._held.partition(_END)
        if found:
            self._held, self._next = after, self._between
            return before
        keep = held_from(self._held, _END)
        shown, self._held = self._held[:keep], self._held[keep:]
        return shown or None


HARMONY = ToolStyle(
    name="harmony",
    taught=re.compile(re.escape(_CHANNEL)),
    trigger=_CHANNEL,
    head=f"{_CHANNEL}commentary to=functions.{{name}} <|constrain|>json{_MESSAGE}",
    tail="",
    joint=f"{_END}{_START}assistant",
    reader=HarmonyReader,
    text_head=f"{_CHANNEL}final{_MESSAGE}",
    plain_reader=partial(HarmonyReader, calls=False),
    marks=(_START, _CHANNEL, _MESSAGE, _END, "<|constrain|>"),
    quotes_name=False,
)
