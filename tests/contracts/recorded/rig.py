"""An adapter, and the recorded engine behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from backends.base import Backend, Options, Refusal, Upstream
from backends.registry import create
from tests.contracts.recorded.server import RecordedEngine, playing

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


# Ends after the door of a test has, which still asks its engine while it closes.
_after_the_door: list[contextlib.AsyncExitStack] = []


@contextlib.asynccontextmanager
async def engines_outlive_the_door() -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        _after_the_door.append(stack)
        yield
        _after_the_door.pop()


@contextlib.asynccontextmanager
async def behind(kind: str, options: Options | None = None) -> AsyncIterator[tuple[Backend, RecordedEngine]]:
    if _after_the_door:
        stack = _after_the_door[-1]
        yield await stack.enter_async_context(_played(kind, options))
    else:
        async with _played(kind, options) as both:
            yield both


@contextlib.asynccontextmanager
async def _played(kind: str, options: Options | None) -> AsyncIterator[tuple[Backend, RecordedEngine]]:
    async with playing(kind) as engine:
        backend = create(kind, engine.url, "a-key", name="gpu-a", options=options)
        try:
            yield backend, engine
        finally:
            await backend.aclose()


def asking(**fields: Any) -> dict[str, Any]:
    """A chat request's body, as a client sends it."""
    return {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}]} | fields


def refused(backend: Backend, path: str = CHAT, /, **fields: Any) -> Refusal | None:
    """What the adapter says to these fields."""
    return backend.refusal(path, {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()})


async def ask(backend: Backend, path: str = CHAT, /, headers: Mapping[str, str] | None = None, **fields: Any) -> bytes:
    """The whole answer to what the door sends of a chat request with these fields."""
    sent = asking(stream=True, stream_options={"include_usage": True}) | fields
    return await read(await backend.open(path, msgspec.json.encode(sent), headers or {"x-request-id": "r" * 32}))


async def read(upstream: Upstream) -> bytes:
    try:
        return b"".join([chunk async for chunk in upstream.chunks()])
    finally:
        await upstream.aclose()
