"""Server-sent events: writing them, and reading them however the bytes were cut.

Knows nothing of what the events carry.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024


def event(data: bytes) -> bytes:
    """One event; a newline inside `data` becomes several `data:` lines, as the format asks."""
    if b"\n" in data:
        data = b"\ndata: ".join(data.split(b"\n"))
    return b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """A line that clients ignore and that keeps intermediaries from closing a silent connection."""
    return b": " + " ".join(text.splitlines()).encode() + b"\n\n"


DONE = event(b"[DONE]")


class Event(NamedTuple):
    data: bytes
    name: str = "message"

    @property
    def is_done(self) -> bool:
        return self.data == b"[DONE]"


class OversizedEvent(ValueError):
    """A peer sent an event beyond the limit: memory stays bounded whatever it does."""


class EventParser:
    """Incremental: the same bytes give the same events, however `feed` is called with them.

    An event that the stream leaves unfinished is never returned, so its absence shows that the stream was cut.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._size = 0  # bytes of the lines read since the last event ended
        self._tail: list[bytes] = []  # the unfinished last line, in pieces so that a long line stays linear
        self._tail_size = 0
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._name = ""

    def feed(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        head, newline, rest = self._unix_newlines(chunk).rpartition(b"\n")
        if newline:
            lines = b"".join((*self._tail, head)).split(b"\n")
            self._tail.clear()
            self._tail_size = 0
            for line in lines:
                self._take(line, events)
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            self._check_size()
        return events

    def _unix_newlines(self, chunk: bytes) -> bytes:
        """CRLF and a lone CR end a line too; a CR that ends a chunk ends its line, and swallows the LF to come."""
        if not chunk:
            return chunk
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _take(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events)
            return
        self._size += len(line)
        self._check_size()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode(errors="replace")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(b"\n".join(self._data), self._name or "message"))
        self._data = []
        self._name = ""
        self._size = 0

    def _check_size(self) -> None:
        if self._size + self._tail_size > self._max_event_bytes:
            raise OversizedEvent(f"an event of more than {self._max_event_bytes} bytes")
