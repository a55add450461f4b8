"""Reads multipart/form-data: one file, straight to where it is to be kept, and a few short fields. Bounded in all."""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from gateway.errors import BadRequest, BodyTimeout, BodyTooLarge, ClientGone
from gateway.scope import RequestScope

_FILE = "file"
_MOST_PARTS = 20
_LONGEST_FIELD = 1024
# Boundaries, headers and fields.
OVERHEAD = 64 * 1024
# However slowly it comes, an upload has an end.
_LONGEST_SECONDS = 3600


class Upload(NamedTuple):
    filename: str  # as the client spelt it
    size: int
    fields: dict[str, str]


async def read_upload(request: RequestScope, file: int, limit: int, seconds: float) -> Upload:
    """Writes the part named `file` to a descriptor; `seconds`: the longest silence. Raises BadRequest and ClientGone.

    Once it returns the content is on the disk.
    """
    form = _Form(_boundary(request), file, limit)
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            more, size = True, 0
            while more:
                async with asyncio.timeout(seconds):
                    message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                data, more = message.get("body", b""), message.get("more_body", False)
                size += len(data)
                if size > limit + OVERHEAD:
                    raise too_large(limit)
                await asyncio.to_thread(form.feed, data)
    except TimeoutError:
        raise BodyTimeout(f"No more of the file came within {seconds:g} seconds.") from None
    await asyncio.to_thread(os.fsync, file)
    return form.upload()


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"A file has at most {limit} bytes. Split it.")


def _boundary(request: RequestScope) -> bytes:
    kind, options = parse_options_header(request.headers.get(b"content-type", b""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 0 < len(boundary) <= 256:
        raise BadRequest("Expected a body of multipart/form-data with a field purpose and a file.")
    return boundary


class _Form:
    """What the parser tells, piece by piece."""

    def __init__(self, boundary: bytes, file: int, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._fields: dict[str, bytes] = {}
        self._filename: str | None = None
        self._size = 0
        self._ended = False
        self._parts = 0
        self._name = ""
        self._header, self._value = b"", b""
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_part_data": self._data,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _unreadable() from error

    def upload(self) -> Upload:
        if not self._ended:
            raise _unreadable()
        if self._filename is None:
            raise BadRequest("Missing required parameter: 'file'.", param="file", code="missing_required_parameter")
        fields = {name: value.decode("utf-8", "replace") for name, value in self._fields.items()}
        return Upload(self._filename, self._size, fields)

    def _begin(self) -> None:
        self._parts += 1
        self._name = ""
        if self._parts > _MOST_PARTS:
            raise BadRequest(f"At most {_MOST_PARTS} fields are taken.")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        header, value = self._header.lower(), self._value
        self._header, self._value = b"", b""
        if header != b"content-disposition":
            return
        _, options = parse_options_header(value)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == _FILE:
            if self._filename is not None:
                raise BadRequest("There are several files. Send one.", param="file")
            self._filename = options.get(b"filename", b"").decode("utf-8", "replace")
        elif self._name in self._fields:
            raise BadRequest("A field stands there twice. Send each once.")
        else:
            self._fields[self._name] = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == _FILE:
            self._size += end - start
            if self._size > self._limit:
                raise too_large(self._limit)
            _write(self._file, memoryview(data)[start:end])
        elif self._name in self._fields and len(self._fields[self._name]) + end - start <= _LONGEST_FIELD:
            self._fields[self._name] += data[start:end]
        else:
            raise BadRequest(f"A field has a name and at most {_LONGEST_FIELD} bytes.")

    def _end(self) -> None:
        self._ended = True


def _write(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]


def _unreadable() -> BadRequest:
    return BadRequest("The body cannot be read as multipart/form-data.")
