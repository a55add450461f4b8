"""A server on a real socket that answers as a real engine was recorded to answer, byte for byte, without the pauses.

    async with playing("sglang") as engine:
        backend = SGLangBackend("gpu-a", engine.url)
        engine.play("30-queue-full-stream")      # these recordings go before all others
        engine.hold_after = 2                    # of a stream only so many chunks, then silence until the client goes
        ...
        engine.asked[-1].fields["stream"]        # what the engine was sent

A request is answered by the recording with its method and path whose body is most like it: `stream` decides first,
then the most fields that are equal and the fewest that are not. Moments of a scenario answer only where they are named.
What is not recorded is a 404.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tests.contracts.recorded.recordings import Exchange, exchanges
from tests.contracts.replay import read_request

# Of a recording these say how it was sent, which is told anew.
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_NOT_RECORDED = Exchange("not recorded", "GET", "", {}, "HTTP/1.1 404 Not Found", pieces=(b"not recorded",))


@dataclass(slots=True)
class Asked:
    """One request as it arrived. `closed` once it was answered whole, or its client has gone."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    played: str = ""  # the name of the recording that answered it
    finished: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def fields(self) -> dict[str, Any]:
        return dict(msgspec.json.decode(self.body))

    @property
    def aborted(self) -> bool:
        return self.closed.is_set() and not self.finished


class RecordedEngine:
    """`engine` is one of llamacpp, ollama, sglang, vllm."""

    def __init__(self, engine: str) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.hold_after: int | None = None
        self._known = exchanges(engine)
        self._first: tuple[str, ...] = ()
        self._open: set[asyncio.StreamWriter] = set()

    def play(self, *names: str) -> None:
        """Answer with these recordings where method and path fit, whatever the body is; with none: as at the start."""
        assert set(names) <= {one.name for one in self._known}, f"not all recorded: {names}"
        self._first = names

    def lacks(self, path: str) -> None:
        """As if this path had never been recorded."""
        self._known = tuple(one for one in self._known if one.path != path)

    def says(self, path: str, new: bytes, old: bytes) -> None:
        """In every answer of this path `new` stands for `old`: as another model, or other flags, would have it."""
        assert any(old in one.body for one in self._known if one.path == path)
        self._known = tuple(
            replace(one, pieces=tuple(piece.replace(old, new) for piece in one.pieces)) if one.path == path else one
            for one in self._known
        )

    def answer_to(self, method: str, path: str, fields: Mapping[str, Any]) -> Exchange:
        fitting = [one for one in self._known if (one.method, one.path) == (method, path)]
        for name in self._first:
            if told := [one for one in fitting if one.name == name]:
                return told[0]
        fitting = [one for one in fitting if not one.of_scenario]
        return max(fitting, key=lambda one: _likeness(one.asked, fields), default=_NOT_RECORDED)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.transport.abort()
        self._open.discard(writer)

    def hang_up(self) -> None:
        """Connections that their client has kept open."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One exchange; whether the connection can have another."""
        method, path, headers, body = await read_request(reader)
        asked = Asked(method, path, headers, body)
        self.asked.append(asked)
        answer = self.answer_to(method, path, _fields(body))
        asked.played = answer.name
        try:
            await self._send(answer, reader, writer)
            asked.finished = not self._holds(answer)
        finally:
            asked.closed.set()
        return asked.finished and ("connection", "close") not in {(k.lower(), v) for k, v in answer.headers}

    def _holds(self, answer: Exchange) -> bool:
        return answer.chunked and self.hold_after is not None

    async def _send(self, answer: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(answer))
        pieces = answer.pieces[: self.hold_after] if self._holds(answer) else answer.pieces
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.chunked else piece)
            await writer.drain()
            await asyncio.sleep(0)
        if self._holds(answer):
            await reader.read(1)  # nothing, once the client has gone
        elif answer.chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


@contextlib.asynccontextmanager
async def playing(engine: str) -> AsyncIterator[RecordedEngine]:
    """The engine on a random port."""
    recorded = RecordedEngine(engine)
    server = await asyncio.start_server(recorded.handle, "127.0.0.1", 0)
    recorded.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield recorded
    finally:
        server.close()
        for _ in range(5):  # one may have been accepted just now
            recorded.hang_up()
            await asyncio.sleep(0)


def _likeness(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[bool, int]:
    same = sum(recorded[name] == value for name, value in asked.items() if name in recorded)
    other = len(recorded.keys() | asked.keys()) - same
    return bool(recorded.get("stream")) == bool(asked.get("stream")), same - other


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _head(answer: Exchange) -> bytes:
    told = [f"{name}: {value}" for name, value in answer.headers if name.lower() not in _FRAMING]
    framing = "transfer-encoding: chunked" if answer.chunked else f"content-length: {len(answer.body)}"
    return "\r\n".join((answer.status_line, *told, framing, "", "")).encode()
