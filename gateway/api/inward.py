"""A request that nobody sends over a socket: the door asks itself, and every stage treats it as any other."""

from __future__ import annotations

import asyncio
import os
import time

import msgspec

from gateway.batches.run import Answer
from gateway.scope import Message, Principal, RequestScope


class Inward:
    """One request and its answer, of a principal whom the door knows already."""

    def __init__(self, principal: Principal, path: str, body: bytes) -> None:
        self._body: bytes | None = body
        self._parts: list[bytes] = []
        self._retry_after: int | None = None
        self.request = RequestScope(
            request_id=os.urandom(16).hex(),
            method="POST",
            path=path,
            headers={},
            header_count=0,
            header_bytes=0,
            receive=self._receive,
            send=self._send,
            received=time.monotonic(),
            principal=principal,
        )

    def answer(self) -> Answer:
        """Once the request has been handled. What is no JSON counts as an engine's failure."""
        try:
            body = msgspec.json.decode(b"".join(self._parts))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Answer(502, None, self.request.request_id, None)
        return Answer(self.request.status, self._retry_after, self.request.request_id, body)

    async def _receive(self) -> Message:
        """The body, and then nothing: nobody leaves before the end."""
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            told = dict(message["headers"]).get(b"retry-after", b"")
            self._retry_after = int(told) if told.isdigit() else None
        else:
            self._parts.append(message["body"])
