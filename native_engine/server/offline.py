"""The server's application asked in this process, without a socket: whole requests in, whole answers out."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from native_engine.config import EngineConfig, validate
from native_engine.loading import store
from native_engine.server.app import App
from native_engine.server.serve import Loader, StartRefused, load, load_service


class Answer(NamedTuple):
    status: int
    request_id: str
    body: bytes


Ask = Callable[[str, bytes], Awaitable[Answer]]


@asynccontextmanager
async def answering(config: EngineConfig, data_dir: Path, name: str, loader: Loader = load) -> AsyncIterator[Ask]:
    """The model served as `name`. Yields what takes a path and the body of a request that does not stream.

    Raises StartRefused and ModelError.
    """
    if faults := validate(config):
        raise StartRefused("\n".join(faults))
    service = await load_service(name, config, store.pull(config.model, data_dir), loader)
    app = App(service)

    async def ask(path: str, body: bytes) -> Answer:
        return await _ask(app, path, body)

    try:
        yield ask
    finally:
        await service.drain(0)


async def _ask(app: App, path: str, body: bytes) -> Answer:
    request_id, status = uuid.uuid4().hex, 0
    unread, parts = [body], []

    async def receive() -> dict[str, Any]:
        if not unread:
            await asyncio.Event().wait()  # nobody leaves
        return {"type": "http.request", "body": unread.pop()}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message["body"])

    headers = [(b"x-request-id", request_id.encode())]
    await app({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
    return Answer(status, request_id, b"".join(parts))
