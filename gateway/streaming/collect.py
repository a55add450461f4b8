"""Gathers a stream into one answer, for a client that asked for none.

The door always streams from the engine: several engines notice a client that leaves only while they stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gateway.errors import DoorError, EngineBroken
from gateway.scope import RequestScope

MAX_BYTES = 64 * 1024 * 1024  # of an answer's events; an engine may know no end
_JSON_HEADERS = [(b"content-type", b"application/json")]
# Of a delta: these are told once, everything else grows by what comes.
_TOLD_ONCE = frozenset({"role", "id", "type", "index"})


class CollectSink:
    """`shape`: makes of the whole answer what the client asked for."""

    def __init__(self, request: RequestScope, shape: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> None:
        self.committed = False
        self.answered = False
        self._request = request
        self._shape = shape
        self._size = 0
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._take_choice = self._take_delta if request.form == "chat" else self._take_text

    async def take(self, events: list[bytes]) -> None:
        self.gather(events)

    def gather(self, events: Sequence[bytes]) -> None:
        for event in events:
            self._size += len(event)
            if self._size > MAX_BYTES:
                raise EngineBroken("The answer is too long to be sent in one piece. Ask for a stream, or for less.")
            if event != b"[DONE]":
                self._take_chunk(_decoded(event))

    async def finish(self) -> None:
        answer = self.answer()
        body = msgspec.json.encode(self._shape(answer) if self._shape else answer)
        self.committed = self.answered = True
        await self._request.begin(200, [*_JSON_HEADERS, (b"content-length", str(len(body)).encode())])
        await self._request.write(body, more=False)

    async def fail(self, error: DoorError) -> None:
        """The status has gone with the whole answer: there is nothing to add."""

    def tell_place(self, place: int, eta: float | None) -> None:
        """Nobody reads before the answer is whole."""

    def close(self) -> None:
        """Nothing is held."""

    def answer(self) -> dict[str, Any]:
        name = "chat.completion" if self._request.form == "chat" else "text_completion"
        choices = [self._choices[index] for index in sorted(self._choices)]
        return self._answer | {"object": name, "choices": choices}

    def _take_chunk(self, chunk: dict[str, Any]) -> None:
        for choice in chunk.pop("choices", None) or ():
            self._take_choice(choice)
        self._answer |= {name: value for name, value in chunk.items() if value is not None}

    def _take_delta(self, piece: dict[str, Any]) -> None:
        choice = self._choice(piece, lambda: {"message": {"role": "assistant", "content": None}})
        merge(choice["message"], piece.pop("delta", None) or {})
        _take_rest(choice, piece)

    def _take_text(self, piece: dict[str, Any]) -> None:
        choice = self._choice(piece, lambda: {"text": ""})
        choice["text"] += piece.pop("text", None) or ""
        _take_rest(choice, piece)

    def _choice(self, piece: dict[str, Any], empty: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        index = piece.pop("index", 0)
        if index not in self._choices:
            self._choices[index] = {"index": index, **empty(), "logprobs": None, "finish_reason": None}
        return self._choices[index]


def collected(request: RequestScope, events: Sequence[bytes]) -> dict[str, Any]:
    """The answer that these events are, as far as they go. Raises EngineBroken where they are none."""
    sink = CollectSink(request)
    sink.gather(events)
    return sink.answer()


def merge(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Grow `whole` by a delta: text is appended, objects are merged, lists of indexed parts are matched by index."""
    for name, value in piece.items():
        before = whole.get(name)
        if value is None or (name in _TOLD_ONCE and before is not None):
            continue
        if isinstance(before, str) and isinstance(value, str):
            whole[name] = before + value
        elif isinstance(before, dict) and isinstance(value, dict):
            merge(before, value)
        elif isinstance(value, list):
            whole[name] = _merged_list(before or [], value)
        else:
            whole[name] = value


def _merged_list(whole: list[Any], pieces: list[Any]) -> list[Any]:
    by_index = {part["index"]: part for part in whole if isinstance(part, dict) and "index" in part}
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        if index in by_index and index is not None:
            merge(by_index[index], piece)
        else:
            whole.append(piece)
            if index is not None:
                by_index[index] = piece
    return whole


def _take_rest(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    """What a choice says beside its text: why it ended, log probabilities, an engine's extras."""
    logprobs = piece.pop("logprobs", None)
    if logprobs:
        choice["logprobs"] = choice["logprobs"] or {}
        merge(choice["logprobs"], logprobs)
    choice |= {name: value for name, value in piece.items() if value is not None}


def _decoded(event: bytes) -> dict[str, Any]:
    try:
        chunk = msgspec.json.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError):
        chunk = None
    if not isinstance(chunk, dict):
        raise EngineBroken("The engine sent something that is not an answer. Try again.")
    return chunk
