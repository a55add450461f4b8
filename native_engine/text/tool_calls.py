"""What readers of tool calls have in common, and the one for calls that are JSON objects. Knows no tools."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Protocol

from native_engine.text.markers import held_from

NAME = r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*'


class CallPiece(NamedTuple):
    """Of the call with that number, from 0. `name` comes with the first piece of a call, and no arguments with it."""

    call: int
    name: str | None
    arguments: str


class Read(NamedTuple):
    text: str
    calls: list[CallPiece]


class CallReader(Protocol):
    """Arguments come as they are written. What only looks like a call is text; blanks around calls are dropped.

    The outcome depends on the text alone, not on how it was cut.
    """

    started: int
    complete: int

    def push(self, text: str) -> Read: ...

    def flush(self) -> str:
        """The answer ended. What was held back is text, unless it belongs to a call."""
        ...


class JsonForm(NamedTuple):
    """Calls as `{"name": ..., "arguments": {...}}` behind `trigger`, joined by `separators`, up to `closing`.

    `at_start`: only where the answer begins with one, and then the trigger may be left out.
    """

    trigger: str
    closing: str = ""
    separators: str = ""
    keys: tuple[str, ...] = ("arguments",)
    at_start: bool = False


class JsonCallReader:
    def __init__(self, form: JsonForm) -> None:
        self.started = 0
        self.complete = 0
        self._form = form
        self._head_pattern = re.compile(NAME + f'"(?:{"|".join(form.keys)})"' + r"\s*:\s*(?=\{)")
        self._held = ""
        self._unsure = ""  # what came since the trigger, as long as it may be text
        self._next = self._beginning if form.at_start else self._outside
        self._after_arguments = self._tail
        self._end = ObjectEnd()
        self._scanned = 0  # characters of what is held that `_end` has seen

    def push(self, text: str) -> Read:
        self._held += text
        read = Read("", [])
        while (step := self._next()) is not None:  # each state takes what it can, until one wants more text
            read = Read(read.text + step.text, read.calls + step.calls)
        return read

    def flush(self) -> str:
        unsure, held = self._unsure, self._held
        self._unsure = self._held = ""
        if self._next in (self._arguments, self._tail) or (self._next == self._between and not unsure):
            return ""
        return "" if self.started and not held.strip() else unsure + held

    def _beginning(self) -> Read | None:
        text, trigger = self._held.lstrip(), self._form.trigger
        if trigger.startswith(text):
            return None
        if text.startswith((trigger, "{")):
            found = trigger if text.startswith(trigger) else ""
            rest = text.removeprefix(found)
            self._unsure, self._held, self._next = self._held[: len(self._held) - len(rest)], rest, self._between
        else:
            self._next = self._text
        return Read("", [])

    def _outside(self) -> Read | None:
        before, found, after = self._held.partition(self._form.trigger)
        keep = len((before if found else self._held[: held_from(self._held, self._form.trigger)]).rstrip())
        shown = self._held[:keep]
        if found:
            self._unsure, self._held, self._next = before[keep:] + found, after, self._between
            return Read(shown, [])
        self._held = self._held[keep:]
        return Read(shown, []) if shown else None

    def _text(self) -> Read | None:
        shown, self._held = self._held, ""
        return Read(shown, []) if shown else None

    def _between(self) -> Read | None:
        """Behind a trigger or a call."""
        rest = self._held.lstrip(self._form.separators + " \t\r\n")
        closing = self._form.closing
        if closing and rest.startswith(closing) and not self._unsure:
            self._held, self._next = rest[len(closing) :], self._outside
        elif rest.startswith("{"):
            self._keep_unsure(rest)
            self._next, self._end, self._scanned = self._head, ObjectEnd(), 0
        elif not rest or (closing.startswith(rest) and not self._unsure):
            return None
        else:
            return self._other(rest)
        return Read("", [])

    def _other(self, rest: str) -> Read | None:
        """No call as JSON."""
        self._next = self._text if self._form.at_start else self._outside
        unsure, self._unsure = self._unsure, ""
        if unsure:
            cut = len(self._held) - len(rest)
            unsure, self._held = unsure + self._held[:cut], rest
        return Read(unsure, [])

    def _head(self) -> Read | None:
        match = self._head_pattern.match(self._held)
        name = loaded(match[1]) if match else None
        if match and isinstance(name, str):
            return self._begin(name, self._held[match.end() :])
        size = self._scanned + self._end.find(self._held[self._scanned :])
        if not self._end.found:
            self._scanned = size
            return None
        body, self._held = self._held[:size], self._held[size:]
        return self._whole(body)

    def _begin(self, name: str, rest: str) -> Read:
        self._unsure, self._held, self._next, self._end = "", rest, self._arguments, ObjectEnd()
        self._after_arguments = self._tail
        self.started += 1
        return Read("", [CallPiece(self.started - 1, name, "")])

    def _whole(self, body: str) -> Read:
        """A call whose keys stand in another order, or something else."""
        call = loaded(body)
        if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not self._may_be_call(call):
            self._next = self._text if self._form.at_start else self._outside
            unsure, self._unsure = self._unsure, ""
            return Read(unsure + body, [])
        given: Any = next((call[key] for key in self._form.keys if key in call), None) or {}
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        self._unsure, self._next = "", self._between
        self.started += 1
        self.complete += 1
        return Read("", [CallPiece(self.started - 1, call["name"], ""), CallPiece(self.started - 1, None, arguments)])

    def _may_be_call(self, call: dict[str, Any]) -> bool:
        """Behind a mark a name is enough; without one an answer in JSON may have a name too."""
        return not self._form.at_start or any(key in call for key in self._form.keys)

    def _arguments(self) -> Read | None:
        if not self._held:
            return None
        size = self._end.find(self._held)
        piece, self._held = self._held[:size], self._held[size:]
        if self._end.found:
            self._next, self._end = self._after_arguments, ObjectEnd(depth=1)
            self.complete += 1
        return Read("", [CallPiece(self.started - 1, None, piece)])

    def _tail(self) -> Read | None:
        """What the call's object holds behind the arguments."""
        size = self._end.find(self._held)
        self._held = self._held[size:]
        if not self._end.found:
            return None
        self._next = self._between
        return Read("", [])

    def _keep_unsure(self, rest: str) -> None:
        if self._unsure:
            self._unsure += self._held[: len(self._held) - len(rest)]
        self._held = rest


class ObjectEnd:
    """Where a JSON object that comes in pieces ends."""

    __slots__ = ("_depth", "_escaped", "_in_string", "found")

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
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


def loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
