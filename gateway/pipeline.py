"""One request on one screen: authenticate > authorise > reserve > wait > route > stream > settle.

The one place that knows every room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.attempts import PATHS, Attempts, Means
from gateway.errors import (
    ClientGone,
    ClientStalled,
    DoorError,
    EngineSilent,
    InternalError,
    ModelNotFound,
    QuotaExceeded,
)
from gateway.identity import access
from gateway.identity.authentication import Authentication
from gateway.identity.revocation import Revocation
from gateway.queueing.orders import Orders
from gateway.routing.journey import Journey
from gateway.routing.prefix_use import prefix_name
from gateway.routing.prefixes import chain
from gateway.routing.router import Wish, data_class, may_go
from gateway.scope import Principal, RequestScope
from gateway.streaming.collect import CollectSink
from gateway.streaming.disconnect import cut_off, unless_gone
from gateway.streaming.meter import Meter
from gateway.streaming.relay import Sink, StreamSink

log = logging.getLogger("sekisho.pipeline")

# Where an answer goes that is not written to the client as the engine wrote it.
NewSink = Callable[[RequestScope], Sink]


class Pipeline:
    def __init__(
        self,
        means: Means,
        authentication: Authentication,
        revocation: Revocation,
        orders: Orders,
    ) -> None:
        self._means = means
        self._authentication = authentication
        self._revocation = revocation
        self._orders = orders

    async def authenticate(self, request: RequestScope) -> Principal:
        return await self._authentication.principal(request)

    async def speak_for(self, request: RequestScope, user: str | None) -> None:
        """The body names whom a program asks for; where its key may say so, the request is theirs from here on."""
        request.principal = await self._authentication.behalf.in_body(request.known(), user)

    async def may_use(self, request: RequestScope, model: str) -> bool:
        """Whether a request of this caller for the model could be served. Raises StoreAway."""
        fleet, principal = self._means.fleet, request.known()
        served = fleet.resolve(model)
        if not _opens(principal, model, served) or not await self._means.admission.allows(principal, served):
            return False
        data = data_class(request.headers.get(b"x-data-class"), self._means.settings.data_class)
        return any(may_go(member.settings, principal.groups, data) for member in fleet.serving(served))

    async def complete(self, request: RequestScope, new_sink: NewSink | None = None) -> None:
        """Answer a request whose body has been checked. Raises a DoorError while a status can still be sent."""
        self._authorise(request)
        journey = await self._journey(request)
        sink = (new_sink or self._sink)(request)
        try:
            await unless_gone(request.receive, self._serve(request, journey, sink), lambda: sink.answered)
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

    def _authorise(self, request: RequestScope) -> None:
        """By the name that was asked for, or by the one that an alias stands for, which it has from here on."""
        asked, served = request.model, self._means.fleet.resolve(request.model)
        if not _opens(request.known(), asked, served):
            raise ModelNotFound(f"The model {asked[:100]!r} does not exist, or your key may not use it.")
        self._orders.check(asked)
        self._orders.check(served)
        request.model = served

    async def _journey(self, request: RequestScope) -> Journey:
        fleet, principal = self._means.fleet, request.known()
        card = await fleet.card(request.model)
        request.context = card.context_length or 0
        request.prefix_id = prefix_name(request.headers.get(b"x-prefix-id"))
        self._means.admission.estimate(request)
        wish = Wish(
            request.model,
            PATHS[request.form],
            request.fields,
            principal.groups,
            data_class(request.headers.get(b"x-data-class"), self._means.settings.data_class),
            request.prompt_estimate,
            chain(principal.tenant, request.model, request.fields, request.prefix_id),
        )
        return Journey(fleet, wish)

    async def _serve(self, request: RequestScope, journey: Journey, sink: Sink) -> None:
        meter = Meter()
        try:
            async with (
                asyncio.timeout(self._means.settings.total_timeout),
                self._revocation.watched(request.known()),
                self._orders.watched(request.request_id, request.model) as flight,
            ):
                on_place = sink.tell_place if _wants_places(request) else None
                with request.span.child("queue") as span:
                    await self._means.admission.admit(request, meter, journey, on_place)
                    span.set({"sekisho.backend": request.backend})
                flight.waits = False
                await Attempts(self._means, request, meter, sink, journey).answer()
        except BaseException as error:
            failure = self._explained(request, error)
            if isinstance(failure, QuotaExceeded):
                self._means.metrics.quota_refusals.add(failure.limit)
            request.outcome = failure.code or "error"
            raise failure from error
        finally:
            with request.span.child("settle"):
                await self._means.admission.settle(request)

    def _explained(self, request: RequestScope, error: BaseException) -> DoorError:
        if isinstance(error, DoorError):
            return error
        if isinstance(error, TimeoutError):
            seconds = self._means.settings.total_timeout
            return EngineSilent(f"The answer was not complete within {seconds:g} seconds.")
        if isinstance(error, asyncio.CancelledError):
            return ClientGone()
        log.error("request %s failed", request.request_id, exc_info=error)
        return InternalError()

    def _sink(self, request: RequestScope) -> Sink:
        if request.streaming:
            return StreamSink(request, self._means.settings.keepalive_seconds)
        return CollectSink(request)


def _opens(principal: Principal, asked: str, served: str) -> bool:
    """Whether the credential opens a model: by its own name, or by the one that people call it."""
    return access.may_use(principal, asked) or access.may_use(principal, served)


def _wants_places(request: RequestScope) -> bool:
    return request.streaming and request.headers.get(b"x-queue-updates") == b"1"
