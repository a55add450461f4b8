"""The input of a batch: JSON Lines, one request each. Tells all that is wrong with a file, by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from backends.wire.nesting import MAX_DEPTH, is_deeper_than
from gateway.batches.records import Endpoint, Fault

MOST_LINES = 50_000
# Whoever has made this many mistakes made the same one on every line.
_MOST_FAULTS = 100
# Around a body: custom_id, method and url.
_AROUND_BODY_BYTES = 64 * 1024


class Line(NamedTuple):
    """Where in the file a request stands. The file may be large: bodies are read when their turn comes."""

    custom_id: str
    offset: int
    size: int


class _Request(msgspec.Struct):
    custom_id: Annotated[str, Meta(min_length=1, max_length=512)]
    method: str
    url: str
    body: msgspec.Raw


class _Body(msgspec.Struct):
    """What the batch has to know of a body. The rest is checked when it is asked."""

    model: Annotated[str, Meta(min_length=1)]
    stream: bool | None = None


class Input(NamedTuple):
    lines: list[Line]
    model: str


class InvalidInput(Exception):
    """`faults`: what is wrong, the first hundred of it."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


_decode = msgspec.json.Decoder(_Request).decode
_decode_body = msgspec.json.Decoder(_Body).decode


def read(path: Path, endpoint: Endpoint, longest_body: int) -> Input:
    """The requests of a file. Raises InvalidInput, and OSError where it cannot be read."""
    checked = _Checked(endpoint)
    for number, offset, line in _numbered(path, longest_body + _AROUND_BODY_BYTES):
        if len(line) > longest_body + _AROUND_BODY_BYTES:
            checked.refuse(number, "line_too_long", f"This line is longer than a request may be: {longest_body} bytes.")
            break
        if number > MOST_LINES:
            checked.refuse(number, "too_many_lines", f"A batch has at most {MOST_LINES} lines. Split the file.")
            break
        if line.strip():
            checked.take(number, offset, line)
        if len(checked.faults) >= _MOST_FAULTS:
            break
    if not checked.lines and not checked.faults:
        checked.refuse(None, "empty_file", "The file has no line. Each line is a request, as a JSON object.")
    if checked.faults:
        raise InvalidInput(checked.faults)
    return Input(checked.lines, checked.model)


def read_body(path: Path, line: Line) -> bytes:
    """The request's body, as the bytes it was."""
    with path.open("rb") as file:
        file.seek(line.offset)
        return bytes(_decode(file.read(line.size)).body)


def _numbered(path: Path, longest: int) -> Iterator[tuple[int, int, bytes]]:
    """Number from 1, offset and bytes. A line that is too long comes cut, one byte longer than `longest`."""
    with path.open("rb") as file:
        number, offset = 0, 0
        while line := file.readline(longest + 1):
            number += 1
            yield number, offset, line
            offset += len(line)


class _Checked:
    """What was read so far."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.lines: list[Line] = []
        self.faults: list[Fault] = []
        self.model = ""
        self._endpoint = endpoint
        self._seen: set[str] = set()

    def refuse(self, number: int | None, code: str, message: str, param: str | None = None) -> None:
        self.faults.append(Fault(code=code, message=message, param=param, line=number))

    def take(self, number: int, offset: int, line: bytes) -> None:
        try:
            request = _parsed(line)
            body = _decode_body(request.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            self.refuse(number, "invalid_json_line", f"This line is no request: {error}.")
            return
        if request.method != "POST":
            self.refuse(number, "invalid_method", "Expected the method POST.", "method")
        if request.url != self._endpoint:
            self.refuse(number, "mismatched_endpoint", f"Expected the batch's endpoint, {self._endpoint}.", "url")
        if request.custom_id in self._seen:
            self.refuse(number, "duplicate_custom_id", "An earlier line has the same custom_id.", "custom_id")
        if body.stream:
            self.refuse(number, "invalid_value", "A batch cannot stream: leave 'stream' out.", "body.stream")
        self.model = self.model or body.model
        if body.model != self.model:
            self.refuse(number, "mismatched_model", "All lines of a batch ask the same model.", "body.model")
        self._seen.add(request.custom_id)
        self.lines.append(Line(request.custom_id, offset, len(line)))


def _parsed(line: bytes) -> _Request:
    if is_deeper_than(line, MAX_DEPTH + 1):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    line.decode()  # msgspec looks only into the strings that it builds
    return _decode(line)
