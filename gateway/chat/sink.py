"""Gathers what an engine says of one answer, until it is told to readers. Knows no reader and no Redis."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from gateway.chat.records import Fault, Usage
from gateway.errors import DoorError, RequestTooLarge

# More is not kept: it would be a conversation of its own.
LONGEST_ANSWER = 1024 * 1024  # bytes


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = msgspec.field(default_factory=list)
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Gathering:
    """A sink of the pipeline (streaming.relay). `news` is set whenever there is something new to tell."""

    def __init__(self) -> None:
        self.committed = True  # refusals too are told as events
        self.answered = False
        self.news = asyncio.Event()
        self.text: list[str] = []  # since it was last taken away
        self.reasoning: list[str] = []
        self.place: tuple[int, float | None] | None = None
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.fault: Fault | None = None
        self._size = 0

    async def take(self, events: list[bytes]) -> None:
        for data in events:
            if data == b"[DONE]":
                self.answered = True
            else:
                with suppress(msgspec.ValidationError):  # of a form that is not known here: it says nothing to people
                    self._take(_decode(data))
        self.news.set()

    async def finish(self) -> None:
        self.answered = True

    async def fail(self, error: DoorError) -> None:
        self.fault = Fault(
            message=error.message,
            type=error.type,
            param=error.param,
            code=error.code,
            retry_after=error.retry_after,
        )

    def tell_place(self, place: int, eta: float | None) -> None:
        self.place = place, eta
        self.news.set()

    def close(self) -> None:
        """Nothing is held."""

    def _take(self, chunk: _Chunk) -> None:
        if (used := chunk.usage) is not None:
            self.usage = Usage(prompt_tokens=used.prompt_tokens or 0, completion_tokens=used.completion_tokens or 0)
        for choice in chunk.choices:
            self.finish_reason = choice.finish_reason or self.finish_reason
            delta = choice.delta or _Delta()
            thought = delta.reasoning_content or delta.reasoning
            for said, into in ((delta.content or delta.refusal, self.text), (thought, self.reasoning)):
                if said:
                    into.append(said)
                    self._size += len(said)
        if self._size > LONGEST_ANSWER:
            raise RequestTooLarge(
                f"The answer is longer than {LONGEST_ANSWER} characters, which is as much as is kept. Ask for less.",
                code="answer_too_long",
            )
