"""One request on one screen: authenticate > authorise > reserve > wait > route > stream > settle.

The one place that knows every room.
"""

from __future__ import annotations

import asyncio
import logging
import time

from backends.base import Backend, Upstream
from backends.errors import BackendError, Unreachable
from gateway.errors import (
    ClientGone,
    DoorError,
    EngineSilent,
    InternalError,
    ModelNotFound,
    StoreAway,
    from_backend,
)
from gateway.identity import access
from gateway.identity.authentication import Authentication
from gateway.identity.revocation import Revocation
from gateway.queueing.ask import Ask
from gateway.queueing.permits import Permits
from gateway.routing.engines import Engines
from gateway.scope import Principal, RequestScope
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.streaming.collect import CollectSink
from gateway.streaming.disconnect import unless_gone
from gateway.streaming.meter import Meter
from gateway.streaming.relay import Sink, StreamSink, pump
from gateway.telemetry.metrics import Metrics
from gateway.usage import ledger

log = logging.getLogger("sekisho.pipeline")

# A rough token of English; used only until the engine has counted the prompt, or where it was cut off before.
_BYTES_PER_TOKEN = 4
# Tokens that an answer is taken to have, until it has ended.
_USUAL_OUTPUT = 256
# How a request ends whose engine was stopped while it was busy.
_CUT_OFF = frozenset({"client_gone", "credential_revoked"})


class Pipeline:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        authentication: Authentication,
        revocation: Revocation,
        permits: Permits,
        engines: Engines,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._store = store
        self._authentication = authentication
        self._revocation = revocation
        self._permits = permits
        self._engines = engines
        self._metrics = metrics
        self._settling: set[asyncio.Task[None]] = set()

    async def authenticate(self, request: RequestScope) -> Principal:
        return await self._authentication.principal(request)

    async def speak_for(self, request: RequestScope, user: str | None) -> None:
        """The body names whom a program asks for; where its key may say so, the request is theirs from here on."""
        request.principal = await self._authentication.behalf.in_body(request.known(), user)

    async def complete(self, request: RequestScope) -> None:
        """Answer a request whose body has been checked. Raises a DoorError while a status can still be sent."""
        if not access.may_use(request.known(), request.model):
            raise ModelNotFound(f"The model {request.model[:100]!r} does not exist, or your key may not use it.")
        backend = await self._engines.find(request.model)
        sink = self._sink(request)
        try:
            await unless_gone(request.receive, self._serve(request, backend, sink), lambda: sink.answered)
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
            async with asyncio.timeout(self._settings.total_timeout), self._revocation.watched(request.known()):
                await self._wait_for_turn(request)
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
            await self._settle(request, meter)

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
                wants_usage=request.wants_usage or not request.streaming,
                first_token=max(0.0, settings.first_token_timeout - spent),
                stall=settings.stall_timeout,
            )
        finally:
            request.first_token = meter.began_at

    async def _wait_for_turn(self, request: RequestScope) -> None:
        asked = time.monotonic()
        prompt = len(request.body) // _BYTES_PER_TOKEN
        service = self._settings.token_weights.of(prompt, 0, _USUAL_OUTPUT)
        wanted = Ask(request.request_id, "api", request.known().subject, service)
        turn = await self._permits.wait(wanted, await self._store.run(self._permits.acquire(wanted)))
        request.admitted_ms = turn.granted_ms
        if turn.waited:
            request.queued_seconds = time.monotonic() - asked

    async def _open(self, request: RequestScope, backend: Backend) -> Upstream:
        request.dispatched = time.monotonic()
        steering = {"x-request-id": request.request_id, "x-sekisho-cache-salt": request.known().tenant}
        try:
            # An engine may hold its status back until the first token; the same patience covers both.
            async with asyncio.timeout(self._settings.first_token_timeout):
                return await backend.open(request.path, request.body, steering)
        except BackendError as error:
            if isinstance(error, Unreachable):
                self._engines.note_away()
            log.info("request %s: engine %s: %s", request.request_id, backend.name, error)
            raise from_backend(error) from error
        except TimeoutError:
            seconds = self._settings.first_token_timeout
            raise EngineSilent(f"No token came within {seconds:g} seconds.") from None

    async def _settle(self, request: RequestScope, meter: Meter) -> None:
        """Give the turn back and book what was used, in a task of its own: what ends the request must not end this."""
        task = asyncio.create_task(self._book(request, meter))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        await asyncio.shield(task)

    async def _book(self, request: RequestScope, meter: Meter) -> None:
        used = _used(request, meter)
        served = self._settings.token_weights.of(used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        calls = [self._permits.release(request.request_id, served)]
        if request.admitted_ms:
            request.tokens = {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.completion_tokens}
            subject = request.known().subject
            calls.append(ledger.settle(request.request_id, subject, request.admitted_ms, used))
            self._metrics.book(used.prompt_tokens, used.completion_tokens)
        try:
            await self._store.run_all(*calls)
        except StoreAway:
            # The turn comes free by its expiry; the account is in the log.
            log.error("request %s could not be booked: %s", request.request_id, request.tokens)

    def _sink(self, request: RequestScope) -> Sink:
        if request.streaming:
            return StreamSink(request, self._settings.keepalive_seconds)
        return CollectSink(request)

    async def aclose(self) -> None:
        await asyncio.gather(*self._settling, return_exceptions=True)


def _used(request: RequestScope, meter: Meter) -> ledger.Used:
    """The account of a request, whatever became of it."""
    prompt_tokens, estimated = meter.prompt_tokens, 0
    if prompt_tokens is None:
        # A refused prompt cost nothing; one that was cut off was read, in whole or in part.
        was_read = request.dispatched and (meter.began or request.outcome in _CUT_OFF)
        prompt_tokens, estimated = (len(request.body) // _BYTES_PER_TOKEN, 1) if was_read else (0, 0)
    return ledger.Used(
        prompt_tokens, meter.completion_tokens, meter.cached_tokens, estimated, failed=int(request.outcome != "ok")
    )
