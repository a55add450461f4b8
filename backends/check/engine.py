"""The engine under examination: its adapter and one of its models, asked as the gateway asks. Knows no check."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.base import Backend, ModelCard, Options
from backends.check.answers import Answer, Chunk, chunks_of
from backends.check.verdicts import Failed, Unsupported
from backends.registry import KINDS, create

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
# `owned_by` of its model list is all that tells engines apart: some answer on each other's paths.
OWNERS = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "ollama": "ollama",
    "sekisho": "native",
}
QUESTION = "Write a short story about a fisherman and the sea."
ENDLESS = "Write the numbers from 1 to 5000, one on each line."
_USUAL_CONTEXT = 2048


@dataclass(frozen=True)
class Engine:
    """`context_length` is that of the model, in tokens; None where the engine does not say."""

    backend: Backend
    model: str
    context_length: int | None = None

    @property
    def long_answer(self) -> int:
        """Tokens of an answer that takes seconds, and still fits."""
        return min(2000, (self.context_length or _USUAL_CONTEXT) // 2)

    async def chat(self, prompt: str = QUESTION, **fields: Any) -> Answer:
        """24 tokens at temperature 0, unless `fields` say otherwise; a field that is None is not sent."""
        return await self._whole(CHAT, {"messages": [{"role": "user", "content": prompt}]} | fields)

    async def complete(self, prompt: str, **fields: Any) -> Answer:
        return await self._whole(COMPLETIONS, {"prompt": prompt} | fields)

    @asynccontextmanager
    async def endless(self) -> AsyncIterator[AsyncIterator[Chunk]]:
        """A long chat answer that has begun; leaving it closes the stream."""
        messages = [{"role": "user", "content": ENDLESS}]
        async with self._stream(CHAT, {"messages": messages, "max_tokens": self.long_answer}) as chunks:
            await anext(chunks)
            yield chunks

    async def post(self, path: str, fields: dict[str, Any]) -> Any:
        """What is answered with JSON."""
        body = self._checked(path, fields)
        upstream = await self.backend.open(path, body, _headers())
        try:
            data = b"".join([piece async for piece in upstream.chunks()])
        finally:
            await upstream.aclose()
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise Failed(f"the answer is not JSON: {error}") from error

    async def _whole(self, path: str, fields: dict[str, Any]) -> Answer:
        answer = Answer()
        async with self._stream(path, fields) as chunks:
            async for chunk in chunks:
                answer.add(chunk)
        return answer

    @asynccontextmanager
    async def _stream(self, path: str, fields: dict[str, Any]) -> AsyncIterator[AsyncIterator[Chunk]]:
        usual = {"max_tokens": 24, "temperature": 0} | fields
        asked = {name: value for name, value in usual.items() if value is not None}
        body = self._checked(path, asked, {"stream": True, "stream_options": {"include_usage": True}})
        upstream = await self.backend.open(path, body, _headers())
        try:
            yield chunks_of(upstream)
        finally:
            await upstream.aclose()

    def _checked(self, path: str, fields: dict[str, Any], added: dict[str, Any] | None = None) -> bytes:
        """The body, with what the gateway adds. Raises Unsupported where the adapter refuses the client's fields."""
        asked = {"model": self.model} | fields
        raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in asked.items()}
        if refusal := self.backend.refusal(path, raw):
            raise Unsupported(refusal.message)
        return msgspec.json.encode(asked | (added or {}))


async def connect(
    url: str, api_key: str | None = None, *, kind: str | None = None, model: str | None = None, options: Options
) -> Engine:
    """The engine at `url`, of the kind that its model list tells where none is given.

    Raises BackendError where the list cannot be read, LookupError where there is no such model.
    """
    kind = kind or await _detected(url, api_key)
    backend = create(kind, url, api_key, options=options)
    try:
        card = _chosen(await backend.models(), model)
    except BaseException:
        await backend.aclose()
        raise
    return Engine(backend, card.id, card.context_length)


def kind_of(cards: Iterable[ModelCard]) -> str:
    """The kind of engine that lists these models; `openai`, which any may be, where nothing tells."""
    told = (OWNERS.get(card.owned_by) for card in cards)
    return next((kind for kind in told if kind in KINDS), "openai")


async def _detected(url: str, api_key: str | None) -> str:
    backend = create("openai", url, api_key)
    try:
        return kind_of(await backend.models())
    finally:
        await backend.aclose()


def _chosen(cards: list[ModelCard], model: str | None) -> ModelCard:
    found = next((card for card in cards if model in (None, card.id)), None)
    if found is None:
        listed = ", ".join(card.id for card in cards) or "none"
        raise LookupError(f"it serves no model {model}: {listed}" if model else "it serves no model at the moment")
    return found


def _headers() -> dict[str, str]:
    return {"x-request-id": f"check-{uuid.uuid4().hex}", "x-sekisho-class": "api"}
