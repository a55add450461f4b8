"""The server's application asked in this process, without a socket: whole requests in, whole answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from native_engine.config import EngineConfig
from native_engine.loading import store
from native_engine.server.app import App
from native_engine.server.serve import Loader, load_service


class Answer(NamedTuple):
    status: int
    request_id: str
    body: bytes


Ask = Callable[[str, bytes], Awaitable[Answer]]


@asynccontextmanager
async def answering(config: EngineConfig, data_dir: Path, name: str, loader: Loader | None = None) -> AsyncIterator[Ask]:
    """Yields what takes a path and a body that does not stream. The model is served as `name`.

    Raises what `serve_engine` raises.
    """
    path = store.pull(config.model, data_dir)
    service = await load_service(name, config, path, *([loader] if loader else []))
    app = App(service)
    try:
        yield lambda path, body: _ask(app, path, body)
    finally:
        await service.drain(0)


async def _ask(app: App, path: str, body: bytes) -> Answer:
    status, headers, parts = 0, {}, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], dict(message["headers"])
        else:
            parts.append(message["body"])

    await app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return Answer(status, headers.get(b"x-request-id", b"").decode(), b"".join(parts))
