"""The two shapes of an answer, chat and plain completion, and the pre-made JSON around a streamed piece of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.wire import responses, sse
from backends.wire.responses import Choice as FinishedChoice
from backends.wire.responses import Head, Usage
from native_engine.server.logprobs import Spelling, chat_logprobs, completion_logprobs
from native_engine.server.tools import call_delta
from native_engine.text.logprobs import TokenLogprobs
from native_engine.text.tool_calls import CallPiece

_encode_text = msgspec.json.Encoder().encode
_Chunk = Callable[[Head, int, str, dict[str, Any] | None], bytes]
_SEAM = "seam"
_QUOTED_SEAM = b'"seam"'


@dataclass(frozen=True)
class Dialect:
    """`field` is the request's field that holds the prompt, as errors name it."""

    id_prefix: str
    field: str
    opening: Callable[[Head, int], bytes | None]
    text: _Chunk
    thought: _Chunk
    logprobs: Callable[[Sequence[TokenLogprobs], Spelling], dict[str, Any]]
    closing: Callable[[Head, int, str], bytes]
    usage: Callable[[Head, Usage], bytes]
    whole: Callable[[Head, Sequence[FinishedChoice], Usage], bytes]


def _completion_text(head: Head, index: int, text: str, logprobs: dict[str, Any] | None) -> bytes:
    return responses.completion_chunk(head, index, text=text, logprobs=logprobs)


CHAT = Dialect(
    id_prefix="chatcmpl-",
    field="messages",
    opening=lambda head, index: responses.chat_chunk(head, index, role="assistant", content=""),
    text=lambda head, index, text, logprobs: responses.chat_chunk(head, index, content=text, logprobs=logprobs),
    thought=lambda head, index, text, logprobs: responses.chat_chunk(head, index, reasoning=text, logprobs=logprobs),
    logprobs=chat_logprobs,
    closing=lambda head, index, reason: responses.chat_chunk(head, index, finish_reason=reason),
    usage=responses.chat_usage_chunk,
    whole=responses.chat_completion,
)
COMPLETION = Dialect(
    id_prefix="cmpl-",
    field="prompt",
    opening=lambda head, index: None,
    text=_completion_text,
    thought=_completion_text,  # a raw prompt's answer is text alone
    logprobs=completion_logprobs,
    closing=lambda head, index, reason: responses.completion_chunk(head, index, finish_reason=reason),
    usage=responses.completion_usage_chunk,
    whole=responses.completion,
)


class ChunkWriter:
    """The events of one choice. Only the text itself is encoded for each token; all around it is made once."""

    def __init__(self, dialect: Dialect, head: Head, index: int, spelling: Spelling, *, null_usage: bool) -> None:
        """`null_usage`: a client that asked for usage sees the field, empty, in every chunk before the last."""
        self._dialect, self._head, self._index, self._null_usage = dialect, head, index, null_usage
        self._spelling = spelling
        opening = dialect.opening(head, index)
        self._opening = b"" if opening is None else self._event(opening)
        self._around_text = self._around(dialect.text)
        self._around_thought = self._around(dialect.thought)

    def text(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> bytes:
        return self._piece(self._dialect.text, self._around_text, text, logprobs)

    def thought(self, text: str, logprobs: Sequence[TokenLogprobs] = ()) -> bytes:
        """Of a chat: nothing else is asked for thoughts."""
        return self._piece(self._dialect.thought, self._around_thought, text, logprobs)

    def calls(self, pieces: Sequence[CallPiece]) -> bytes:
        """Of a chat: nothing else is asked for calls."""
        chunks = (responses.chat_chunk(self._head, self._index, tool_calls=[call_delta(piece)]) for piece in pieces)
        return b"".join(map(self._event, chunks))

    def closing(self, reason: str) -> bytes:
        return self._event(self._dialect.closing(self._head, self._index, reason))

    def _piece(self, chunk: _Chunk, around: tuple[bytes, bytes], text: str, logprobs: Sequence[TokenLogprobs]) -> bytes:
        opening, self._opening = self._opening, b""
        if logprobs:
            return opening + self._event(
                chunk(self._head, self._index, text, self._dialect.logprobs(logprobs, self._spelling))
            )
        return b"".join((opening, around[0], _encode_text(text), around[1])) if text else opening

    def _around(self, chunk: _Chunk) -> tuple[bytes, bytes]:
        """Split at the last occurrence: a model or request may be called "seam" too, and stands before the choices."""
        before, _, after = self._event(chunk(self._head, self._index, _SEAM, None)).rpartition(_QUOTED_SEAM)
        return before, after

    def _event(self, data: bytes) -> bytes:
        return sse.event(data[:-1] + b',"usage":null}' if self._null_usage else data)
