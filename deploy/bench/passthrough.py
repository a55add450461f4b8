"""The least that a Python gateway can be: body in, bytes out, by the server and the client of the door. A yardstick."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import uvicorn


class PassThrough:
    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] != "http":
            return
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        async with self._session.post(self._engine + scope["path"], data=body) as upstream:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": upstream.status, "headers": headers})
            async for chunk in upstream.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body"})


if __name__ == "__main__":
    uvicorn.run(PassThrough(sys.argv[1]), port=int(sys.argv[2]), lifespan="off", log_level="warning", access_log=False,
                loop="uvloop", http="httptools", proxy_headers=False)  # fmt: skip
