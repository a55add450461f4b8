"""One request on one screen: authenticate > authorise > reserve > wait > route > stream > settle.

The one place that knows every room.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from backends.base import Backend, Upstream
from backends.errors import BackendError, Rejected, Unreachable
from gateway.admission import Admission
from gateway.errors import (
    ClientGone,
    ClientStalled,
    DoorError,
    EngineSilent,
    InternalError,
    ModelNotFound,
    from_backend,
)
from gateway.identity import access
from gateway.identity.authentication import Authentication
from gateway.identity.revocation import Revocation
from gateway.queueing.orders import Orders
from gateway.routing.engines import Engines
from gateway.scope import Principal, RequestScope
from gateway.settings import Settings
from gateway.streaming.collect import CollectSink
from gateway.streaming.continuation import Transcript
from gateway.streaming.disconnect import cut_off, unless_gone
from gateway.streaming.meter import Meter
from gateway.streaming.pump import pump
from gateway.streaming.relay import Sink, StreamSink
from gateway.streaming.watch import Patience

log = logging.getLogger("sekisho.pipeline")

# The only paths of an engine that are ever asked for a user.
_PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
}
_STREAMED = frozenset({"chat", "completions"})


class Pipeline:
    def __init__(
        self,
        settings: Settings,
        authentication: Authentication,
        revocation: Revocation,
        orders: Orders,
        admission: Admission,
        engines: Engines,
    ) -> None:
        self._settings = settings
        self._authentication = authentication
        self._revocation = revocation
        self._orders = orders
        self._admission = admission
        self._engines = engines

    async def authenticate(self, request: RequestScope) -> Principal:
        return await self._authentication.principal(request)

    async def speak_for(self, request: RequestScope, user: str | None) -> None:
        """The body names whom a program asks for; where its key may say so, the request is theirs from here on."""
        request.principal = await self._authentication.behalf.in_body(request.known(), user)

    async def complete(self, request: RequestScope, new_sink: Callable[[RequestScope], Sink] | None = None) -> None:
        """Answer a request whose body has been checked. Raises a DoorError while a status can still be sent.

        `new_sink`: for an answer that is not to be written as the engine wrote it.
        """
        if not access.may_use(request.known(), request.model):
            raise ModelNotFound(f"The model {request.model[:100]!r} does not exist, or your key may not use it.")
        backend = await self._engines.find(request.model)
        self._orders.check(request.model)
        sink = (new_sink or self._sink)(request)
        try:
            await unless_gone(request.receive, self._serve(request, backend, sink), lambda: sink.answered)
        except ClientStalled:
            await cut_off(request.send)
            raise
        except ClientGone:
            raise
        except DoorError as error:
            if not sink.committed:
                raise
            await sink.fail(error)
        finally:
            sink.close()

    async def _serve(self, request: RequestScope, backend: Backend, sink: Sink) -> None:
        meter = Meter()
        try:
            async with (
                asyncio.timeout(self._settings.total_timeout),
                self._revocation.watched(request.known()),
                self._orders.watched(request.request_id, request.model) as flight,
            ):
                await self._admission.admit(request, meter, sink.tell_place if _wants_places(request) else None)
                flight.waits = False
                upstream = await self._open(request, backend)
                try:
                    await self._stream(request, upstream, meter, sink)
                finally:
                    await upstream.aclose()
        except BaseException as error:
            failure = self._explained(request, error)
            request.outcome = failure.code or "error"
            raise failure from error
        finally:
            await self._admission.settle(request, meter)

    def _explained(self, request: RequestScope, error: BaseException) -> DoorError:
        if isinstance(error, DoorError):
            return error
        if isinstance(error, TimeoutError):
            return EngineSilent(f"The answer was not complete within {self._settings.total_timeout:g} seconds.")
        if isinstance(error, asyncio.CancelledError):
            return ClientGone()
        log.error("request %s failed", request.request_id, exc_info=error)
        return InternalError()

    async def _stream(self, request: RequestScope, upstream: Upstream, meter: Meter, sink: Sink) -> None:
        settings = self._settings
        # What the engine took to send its status is part of the time to the first token.
        spent = time.monotonic() - request.dispatched
        try:
            await pump(
                upstream,
                meter,
                sink,
                Patience(
                    first_token=max(0.0, settings.first_token_timeout - spent),
                    stall=settings.stall_timeout,
                    client=settings.client_stall_timeout,
                ),
                wants_usage=request.wants_usage or not request.streaming,
                transcript=Transcript(),
            )
        finally:
            request.first_token = meter.began_at

    async def _open(self, request: RequestScope, backend: Backend) -> Upstream:
        request.dispatched = time.monotonic()
        steering = {"x-request-id": request.request_id, "x-sekisho-cache-salt": request.known().tenant}
        try:
            # An engine may hold its status back until the first token; the same patience covers both.
            async with asyncio.timeout(self._settings.first_token_timeout):
                return await backend.open(_PATHS[request.form], _body(request), steering)
        except BackendError as error:
            if isinstance(error, Unreachable):
                self._engines.note_away()
            elif isinstance(error, Rejected) and error.status == 404:
                await self._engines.confirm(request.model)
            log.info("request %s: engine %s: %s", request.request_id, backend.name, error)
            raise from_backend(error) from error
        except TimeoutError:
            seconds = self._settings.first_token_timeout
            raise EngineSilent(f"No token came within {seconds:g} seconds.") from None

    def _sink(self, request: RequestScope) -> Sink:
        if request.streaming:
            return StreamSink(request, self._settings.keepalive_seconds)
        return CollectSink(request)


def _wants_places(request: RequestScope) -> bool:
    return request.streaming and request.headers.get(b"x-queue-updates") == b"1"


def _body(request: RequestScope) -> bytes:
    """What the engine gets. It always streams to the door where it can, and always counts."""
    fields = request.fields
    if request.form in _STREAMED and not (request.streaming and request.wants_usage):
        options = msgspec.json.decode(fields.get("stream_options", b"null")) or {}
        told = msgspec.json.encode(options | {"include_usage": True})
        fields = fields | {"stream": msgspec.Raw(b"true"), "stream_options": msgspec.Raw(told)}
    return msgspec.json.encode(fields)
