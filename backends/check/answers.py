"""A streamed answer read chunk by chunk and put together. Knows the OpenAI form, and no engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from backends.base import Upstream
from backends.check.verdicts import Failed
from backends.errors import Rejected
from backends.wire.errors import normalise
from backends.wire.sse import EventParser, OversizedEvent


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int = 0
    function: _Function | None = None


class TokenLogprob(msgspec.Struct):
    token: str
    logprob: float
    top_logprobs: list[TokenLogprob] | None = None


class _Logprobs(msgspec.Struct):
    content: list[TokenLogprob] | None = None


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int | None = None


class Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(Chunk).decode


async def chunks_of(upstream: Upstream) -> AsyncIterator[Chunk]:
    """Raises Rejected for an error that comes in the stream, Failed for what is no stream of chunks up to [DONE]."""
    parser = EventParser()
    try:
        async for piece in upstream.chunks():
            for event in parser.feed(piece):
                if event.is_done:
                    return
                yield _chunk(event.data)
    except OversizedEvent as error:
        raise Failed(f"the stream holds {error}") from error
    raise Failed("the stream ended without [DONE]")


def _chunk(data: bytes) -> Chunk:
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(f"a chunk of the stream cannot be read: {error}") from error
    if chunk.error:
        raise Rejected(normalise(200, data).status, data)
    return chunk


class Answer:
    """All choices of a whole answer, by index. `pieces` counts the chunks that brought text."""

    def __init__(self) -> None:
        self.role: str | None = None
        self.contents: dict[int, str] = {}
        self.finish_reasons: dict[int, str] = {}
        self.logprobs: list[TokenLogprob] = []
        self.calls: dict[int, tuple[str, str]] = {}  # name and arguments
        self.reasoning = ""
        self.pieces = 0
        self._usage: Usage | None = None

    @property
    def text(self) -> str:
        """Of the first choice."""
        return self.contents.get(0, "")

    @property
    def finish_reason(self) -> str | None:
        return self.finish_reasons.get(0)

    @property
    def usage(self) -> Usage:
        """Raises Failed where none came."""
        if self._usage is None:
            raise Failed("no usage came with the answer")
        return self._usage

    def add(self, chunk: Chunk) -> None:
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            delta = choice.delta or _Delta()
            self.role = self.role or delta.role
            thought = delta.reasoning or delta.reasoning_content or ""
            said = delta.content or choice.text or ""
            self.pieces += bool(said or thought)
            self.reasoning += thought
            self.contents[choice.index] = self.contents.get(choice.index, "") + said
            if choice.finish_reason is not None:
                self.finish_reasons[choice.index] = choice.finish_reason
            if choice.logprobs is not None:
                self.logprobs += choice.logprobs.content or []
            for call in delta.tool_calls or ():
                self._add_call(call)

    def _add_call(self, call: _Call) -> None:
        name, arguments = self.calls.get(call.index, ("", ""))
        given = call.function or _Function()
        self.calls[call.index] = (name + (given.name or ""), arguments + (given.arguments or ""))
