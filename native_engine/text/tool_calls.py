"""Tool calls in a stream of text, in the form of Hermes and Qwen: <tool_call>{...}</tool_call>. Knows no tools."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

START, END = "<tool_call>", "</tool_call>"
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')


class CallPiece(NamedTuple):
    """Of the call with that number, from 0. `name` comes with the first piece of a call, and no arguments with it."""

    call: int
    name: str | None
    arguments: str


class Read(NamedTuple):
    text: str
    calls: list[CallPiece]


class ToolCallReader:
    """Arguments come as they are written. What only looks like a call is text; blanks around calls are dropped."""

    __slots__ = ("_end", "_held", "_next", "complete", "started")

    def __init__(self) -> None:
        self.started = 0
        self.complete = 0
        self._held = ""
        self._next = self._outside
        self._end = _ObjectEnd()

    def push(self, text: str) -> Read:
        self._held += text
        read = Read("", [])
        while (step := self._next()) is not None:  # each state takes what it can, until one wants more text
            read = Read(read.text + step.text, read.calls + step.calls)
        return read

    def flush(self) -> str:
        """The answer ended. What was held back is text, unless it belongs to a call."""
        held, self._held = self._held, ""
        if self._next == self._head:
            return START + held
        return "" if self._next != self._outside or (self.started and not held.strip()) else held

    def _outside(self) -> Read | None:
        before, found, after = self._held.partition(START)
        if found:
            self._held, self._next = after, self._head
            return Read(before.rstrip(), [])
        keep = _beginning_of_call(self._held)
        shown, self._held = self._held[:keep], self._held[keep:]
        return Read(shown, []) if shown else None

    def _head(self) -> Read | None:
        match = _HEAD.match(self._held)
        name = _loaded(match[1]) if match else None
        if match and isinstance(name, str):
            self._held, self._next, self._end = self._held[match.end() :], self._arguments, _ObjectEnd()
            self.started += 1
            return Read("", [CallPiece(self.started - 1, name, "")])
        body, found, after = self._held.partition(END)
        if not found:
            return None
        self._held, self._next = after, self._outside
        return self._whole(body)

    def _whole(self, body: str) -> Read:
        """A call whose keys stand in another order, or something else."""
        call = _loaded(body)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return Read(START + body + END, [])
        index, given = self.started, call.get("arguments") or {}
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        self.started += 1
        self.complete += 1
        return Read("", [CallPiece(index, call["name"], ""), CallPiece(index, None, arguments)])

    def _arguments(self) -> Read | None:
        if not self._held:
            return None
        count = self._end.find(self._held)
        piece, self._held = self._held[:count], self._held[count:]
        if self._end.found:
            self._next = self._tail
            self.complete += 1
        return Read("", [CallPiece(self.started - 1, None, piece)])

    def _tail(self) -> Read | None:
        _, found, after = self._held.partition(END)
        if not found:
            return None
        self._held, self._next = after, self._outside
        return Read("", [])


class _ObjectEnd:
    """Where a JSON object that comes in pieces ends."""

    __slots__ = ("_depth", "_escaped", "_in_string", "found")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self.found = False

    def find(self, text: str) -> int:
        """How many characters of `text` belong to the object."""
        for position, character in enumerate(text, 1):
            self._advance(character)
            if self._depth == 0:
                self.found = True
                return position
        return len(text)

    def _advance(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif self._in_string:
            self._escaped = character == "\\"
            self._in_string = character != '"'
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1


def _beginning_of_call(text: str) -> int:
    """Where a tail begins that may yet become a call, with the blanks before it."""
    cut = next((len(text) - size for size in range(len(START) - 1, 0, -1) if text.endswith(START[:size])), len(text))
    return len(text[:cut].rstrip())


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
