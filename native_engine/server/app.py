"""The server's ASGI application: which paths exist, and what is answered before there is a model, and after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from backends.telemetry import lines
from backends.wire.errors import InvalidRequest
from native_engine.server import embeddings, handlers, traces
from native_engine.server.http import (
    ClientGone,
    HttpError,
    Receive,
    Scope,
    Send,
    send_error,
    send_whole,
    unavailable,
)
from native_engine.server.service import BaseService, EmbeddingService, Service

logger = logging.getLogger(__name__)

Handler = Callable[[BaseService, Scope, Receive, Send], Awaitable[None]]


def _generating(handler: Callable[[Service, Scope, Receive, Send], Awaitable[None]]) -> Handler:
    async def checked(service: BaseService, scope: Scope, receive: Receive, send: Send) -> None:
        if not isinstance(service, Service):
            raise _wrong_model(service, "makes embeddings and generates no text; use /v1/embeddings")
        await handler(service, scope, receive, send)

    return checked


def _embedding(handler: Callable[[EmbeddingService, Scope, Receive, Send], Awaitable[None]]) -> Handler:
    async def checked(service: BaseService, scope: Scope, receive: Receive, send: Send) -> None:
        if not isinstance(service, EmbeddingService):
            raise _wrong_model(service, "generates text and makes no embeddings; use /v1/chat/completions")
        await handler(service, scope, receive, send)

    return checked


def _wrong_model(service: BaseService, why: str) -> InvalidRequest:
    return InvalidRequest(f"The model '{service.info.name}' {why}.", "model", "unsupported_model")


ROUTES: dict[str, tuple[str, Handler]] = {
    "/v1/chat/completions": ("POST", _generating(handlers.chat)),
    "/v1/completions": ("POST", _generating(handlers.completions)),
    "/tokenize": ("POST", _generating(handlers.tokenize)),
    "/v1/embeddings": ("POST", _embedding(embeddings.embeddings)),
    "/v1/models": ("GET", handlers.models),
    "/metrics": ("GET", handlers.show_metrics),
    handlers.ACCOUNT_PATH: ("GET", handlers.account),
}


class App:
    """Answers from its first moment: 503 until `service` is set, and again while that one drains."""

    def __init__(self, service: BaseService | None = None) -> None:
        self.service = service
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        with lines.about(handlers.id_of(scope), traces.caller_of(scope)[3:35]):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._route(scope, receive, send)
        except ClientGone:
            pass
        except (InvalidRequest, HttpError) as error:
            await send_error(send, error)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            # Where the answer has begun the server refuses a second status, and closes the connection instead.
            await send_error(send, HttpError(500, "The engine failed on this request.", "server_error", "engine_error"))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(handlers.ACCOUNT_PATH):
            path = handlers.ACCOUNT_PATH
        if path == "/health":
            self._ready_service()
            await send_whole(send, 200, b'{"status":"ok"}')
            return
        if path not in ROUTES:
            raise HttpError(404, f"Unknown path {path[:100]}.", "invalid_request_error", "unknown_url")
        method, handler = ROUTES[path]
        if scope["method"] != method:
            raise HttpError(405, f"{path} takes {method} only.", "invalid_request_error", "method_not_allowed")
        # Figures stay visible while streams finish; new work is not taken.
        service = self._loaded_service() if method == "GET" else self._ready_service()
        await handler(service, scope, receive, send)

    def _loaded_service(self) -> BaseService:
        if self.service is None:
            raise unavailable("The engine is shutting down." if self.draining else "The model is loading.")
        return self.service

    def _ready_service(self) -> BaseService:
        service = self._loaded_service()
        if self.draining or not service.ready:
            raise unavailable("The engine is shutting down.")
        return service
