"""A stream of several answers that were each counted for themselves, with one count of all of them. Knows no engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from backends.base import Upstream
from backends.wire import sse
from backends.wire.responses import Head, Usage, chat_usage_chunk, completion_usage_chunk


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _Details = _Details()


class _Chunk(msgspec.Struct):
    id: str = ""
    created: int = 0
    model: str = ""
    usage: _Usage | None = None


_chunk = msgspec.json.Decoder(_Chunk).decode


class CountedOnce:
    """`choices` of one prompt. A count is kept back until the end; all other events go by as they come."""

    def __init__(self, upstream: Upstream, path: str, choices: int) -> None:
        self.status = upstream.status
        self.headers = upstream.headers
        self._upstream = upstream
        self._choices = choices
        self._told = chat_usage_chunk if path == "/v1/chat/completions" else completion_usage_chunk
        self._counts: list[_Usage] = []
        self._head = Head("", 0, "")

    async def chunks(self) -> AsyncIterator[bytes]:
        feed = sse.EventParser().feed
        async for chunk in self._upstream.chunks():
            if events := b"".join(self._retold(event) for event in feed(chunk)):
                yield events

    async def aclose(self) -> None:
        await self._upstream.aclose()

    def _retold(self, event: sse.Event) -> bytes:
        if event.is_done:
            return (sse.event(self._told(self._head, self._all())) if self._counts else b"") + sse.DONE
        try:
            chunk = _chunk(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return sse.event(event.data)  # for the door to judge
        if chunk.usage is None:
            return sse.event(event.data)
        self._counts.append(chunk.usage)
        self._head = Head(chunk.id, chunk.created, chunk.model)
        return b""

    def _all(self) -> Usage:
        """Each choice has counted the whole of its prompt."""
        prompt = sum(count.prompt_tokens for count in self._counts) // self._choices
        cached = sum(count.prompt_tokens_details.cached_tokens for count in self._counts) // self._choices
        return Usage(prompt, sum(count.completion_tokens for count in self._counts), cached)
