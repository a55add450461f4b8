"""Composition root: puts the parts together and is the ASGI application. Reads as the order in which things happen."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from backends.base import Backend
from gateway import routes
from gateway.admission import Admission
from gateway.api.door import Door
from gateway.api.http import send_error
from gateway.api.inward import Inward
from gateway.api.pages import send_to_sign_in
from gateway.attempts import Means
from gateway.batches.book import Book
from gateway.batches.files import Files
from gateway.batches.run import Answer, Ask, Parts
from gateway.batches.runner import Runner
from gateway.booking import Booking
from gateway.errors import ClientGone, DoorError, HeadersTooLarge, InternalError, StoreAway
from gateway.identity import access
from gateway.identity.absent import Absent
from gateway.identity.addresses import Network, client_address
from gateway.identity.api_keys import ApiKeys, KeyRing, local_admin
from gateway.identity.authentication import Authentication
from gateway.identity.base import Identifier
from gateway.identity.behalf import Behalf
from gateway.identity.browsers import browsers
from gateway.identity.group_book import GroupBook
from gateway.identity.jwt_bearer import JwtBearer
from gateway.identity.oidc.provider import Providers
from gateway.identity.open_webui import OpenWebUI
from gateway.identity.people import People
from gateway.identity.records import Key, User
from gateway.identity.revocation import Revocation
from gateway.identity.sealing import Sealer
from gateway.identity.server_key import WrongServerKey, check_server_key, load_server_key
from gateway.identity.sessions import Sessions
from gateway.identity.throttle import Throttle
from gateway.identity.uses import Uses
from gateway.overflow import Overflow
from gateway.pipeline import Pipeline
from gateway.queueing.ask import CLASSES, ClassLimits, QueueLimits
from gateway.queueing.lines import Lines
from gateway.queueing.orders import Orders
from gateway.quotas.book import PolicyBook
from gateway.quotas.local_share import LocalShare
from gateway.quotas.reaper import Reaper
from gateway.quotas.service import QuotaService
from gateway.reload import Reload
from gateway.rooms import Rooms
from gateway.routing.fleet import Fleet
from gateway.routing.member import Member, make_member
from gateway.routing.shared import Shared
from gateway.scope import Principal, Receive, RequestScope, Send
from gateway.settings import Settings
from gateway.store.directory import Actor, Directory
from gateway.store.lookup import Lookup
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.telemetry import logs
from gateway.telemetry.metrics import Metrics

log = logging.getLogger("sekisho.app")

_BOOTSTRAP_RETRY_SECONDS = 0.5


class App:
    """The ASGI application. `door` is there once the lifespan has begun."""

    def __init__(
        self,
        settings: Settings,
        backends: Mapping[str, Backend] | None = None,
        file: Path | None = None,
        read: Callable[[], Settings] | None = None,
    ) -> None:
        self._settings = settings
        self._backends = backends or {}
        self._reload = Reload(file, settings, read, self._take_over) if file and read else None
        self._bootstrap: asyncio.Task[None] | None = None
        self._proxies = [ip_network(network, strict=False) for network in settings.trusted_proxies]
        self.door: Door | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._handle(_request(scope, receive, send, self._proxies))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def ask(self, principal: Principal, path: str, body: bytes) -> Answer:
        """As a client of this principal would ask, without a socket between: the same stages, the same refusals."""
        inward = Inward(principal, path, body)
        await self._handle(inward.request)
        return inward.answer()

    async def _handle(self, request: RequestScope) -> None:
        """The outermost stage: whatever happens inside, one answer with a request id, one line in the log."""
        level = logging.INFO
        try:
            await self._answer(request)
            if request.route in routes.PROBES:
                level = logging.DEBUG  # asked every few seconds, by machines
        except DoorError as error:
            level = error.log_level
            if not (request.route in routes.PAGES and await send_to_sign_in(request, error)):
                await _refuse(request, error)
        except Exception:
            log.exception("request %s failed", request.request_id)
            level = logging.ERROR
            await _refuse(request, InternalError())
        finally:
            self._note(request, level)

    async def _answer(self, request: RequestScope) -> None:
        door = self._opened()
        _check_headers(request, self._settings)
        route, request.path_value = routes.find(request.method, request.path)
        request.route = route.path
        if route.path not in routes.PUBLIC_PATHS:
            request.principal = request.principal or await door.pipeline.authenticate(request)
            # Above this line runs for anyone; below it only for a known principal, public paths excepted.
            access.check_route(request.principal, route.endpoint, route.role)
        await route.handler(door, request)

    def _note(self, request: RequestScope, level: int) -> None:
        seconds = time.monotonic() - request.received
        metrics = self._opened().metrics
        metrics.requests.labels(request.route, request.status).inc()
        if request.outcome != "ok":
            metrics.failures.labels(request.outcome).inc()
        if request.model:
            metrics.completion(request, seconds)
        logs.access(request, seconds, level)

    def _opened(self) -> Door:
        if self.door is None:
            raise RuntimeError("the application was not started: its server does not run the ASGI lifespan")
        return self.door

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            log.exception("the door could not be opened")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def open(self) -> None:
        """Start every part. None of them needs Redis or the engine to be up: /readyz tells when they are."""
        server_key = load_server_key(self._settings.data_dir)
        self.door = _build(self._settings, self._backends, server_key, self.ask)
        try:
            with suppress(StoreAway):
                await check_server_key(self.door.store, server_key, self._settings.data_dir)
        except WrongServerKey:
            await self.aclose()
            raise
        self.door.fleet.start()
        self.door.rooms.start()
        self.door.health.start()
        await self.door.orders.start()
        self.door.booking.start()
        self.door.reaper.start()
        self.door.revocation.start()
        self.door.providers.start()
        self.door.runner.start()
        if self._reload is not None:
            self._reload.start()
        if self._settings.bootstrap_key is not None:
            key = self._settings.bootstrap_key.get_secret_value()
            self._bootstrap = asyncio.create_task(_put_bootstrap_key(self.door, key))

    async def aclose(self) -> None:
        door = self._opened()
        if self._bootstrap is not None:
            self._bootstrap.cancel()
        if self._reload is not None:
            await self._reload.aclose()
        await door.runner.aclose()
        await door.reaper.aclose()
        await door.booking.aclose()
        await door.health.aclose()
        await door.rooms.aclose()
        await door.orders.aclose()
        await door.revocation.aclose()
        await door.browsers.refresher.aclose()
        await door.providers.aclose()
        await door.uses.aclose()
        await door.fleet.aclose()
        await door.store.aclose()

    async def _take_over(self, settings: Settings) -> None:
        await self._opened().fleet.apply(settings.engines, settings.aliases)


def _build(settings: Settings, backends: Mapping[str, Backend], server_key: bytes, ask: Ask) -> Door:
    fleet = _fleet(settings, backends)
    store = Store(settings.redis_url, settings.redis_timeout)
    directory = Directory(Records(store))
    shares = settings.redis_away == "local_share"
    away_seconds = settings.local_share_minutes * 60 if shares else 0.0
    lookup = Lookup(directory, settings.key_cache_seconds, away_seconds)
    key_ring = KeyRing(directory, server_key)
    sessions = Sessions(store, Sealer(server_key), settings.session_idle_seconds, settings.session_seconds)
    lines = Lines(store, _queue_limits(settings))
    rooms = Rooms(fleet, lines, settings.target_tokens_per_second)
    health = Shared(store, os.urandom(8).hex(), fleet.healths, fleet.note_by_name)
    metrics = _metrics(store, lines, fleet)
    uses = Uses(directory)
    providers = Providers(settings.issuers)
    people = People(directory, lookup, GroupBook(directory, settings.key_cache_seconds, away_seconds), settings.issuers)
    served = browsers(settings, store, sessions, providers, people)
    api_keys = ApiKeys(key_ring, lookup, people, _open_webui(settings), uses)
    identifiers: list[Identifier] = [
        api_keys,
        JwtBearer(providers, people),
        served.cookie,
    ]
    authentication = _authentication(settings, identifiers, lookup, metrics)
    revocation = Revocation(store, lookup, sessions, settings.revocation_ends_streams)
    book = PolicyBook(Records(store), settings.key_cache_seconds)
    share = LocalShare(settings.local_share_minutes, settings.replicas) if shares else None
    quotas = QuotaService(store, book, settings.prices, settings.quota_time_zone, settings.lease_seconds, share)
    booking = Booking(settings, store, quotas, lines, fleet, metrics)
    metrics.gauge("sekisho_unbooked", "Requests that ended and are not booked yet.", lambda: booking.unbooked)
    reaper = Reaper(store, settings.lease_seconds, booking.account, booking.book)
    orders = Orders(store, rooms.told, fleet.lacks)
    admission = Admission(settings, store, quotas, rooms, booking)
    means = Means(settings, fleet, admission, Overflow(directory, fleet), metrics)
    pipeline = Pipeline(means, authentication, revocation, orders)
    files = Files(
        store, directory, settings.files_dir or settings.data_dir / "files", settings.max_stored_bytes_per_subject
    )
    batches = Book(store, directory)
    absent = Absent(api_keys, people, authentication.behalf)
    parts = _batch_parts(settings, directory, files, metrics, ask, absent)
    runner = Runner(store, batches, parts, settings.lease_seconds)
    metrics.gauge("sekisho_batches_running", "Batches that this gateway runs.", lambda: runner.running)
    return Door(
        settings=settings,
        store=store,
        directory=directory,
        lookup=lookup,
        key_ring=key_ring,
        quotas=quotas,
        lines=lines,
        rooms=rooms,
        orders=orders,
        booking=booking,
        reaper=reaper,
        fleet=fleet,
        health=health,
        metrics=metrics,
        pipeline=pipeline,
        revocation=revocation,
        uses=uses,
        sessions=sessions,
        providers=providers,
        people=people,
        browsers=served,
        files=files,
        batches=batches,
        runner=runner,
    )


def _fleet(settings: Settings, backends: Mapping[str, Backend]) -> Fleet:
    members = [
        Member(one, backends[one.name]) if one.name in backends else make_member(one) for one in settings.engines
    ]
    return Fleet(members, settings.aliases)


def _batch_parts(
    settings: Settings, directory: Directory, files: Files, metrics: Metrics, ask: Ask, absent: Absent
) -> Parts:
    return Parts(
        directory=directory,
        files=files,
        metrics=metrics,
        ask=ask,
        principal_of=lambda batch: absent.principal(batch.subject, batch.name, batch.key_id, batch.acting),
        parallel=settings.batch_parallel,
        longest_body=settings.max_body_bytes,
    )


def _authentication(
    settings: Settings, identifiers: Sequence[Identifier], lookup: Lookup, metrics: Metrics
) -> Authentication:
    behalf = Behalf(lookup, (issuer.issuer for issuer in settings.issuers))
    return Authentication(identifiers, Throttle(settings.auth_failures_per_minute), behalf, metrics)


def _open_webui(settings: Settings) -> OpenWebUI:
    return OpenWebUI(settings.open_webui_secret.get_secret_value() if settings.open_webui_secret else None)


def _queue_limits(settings: Settings) -> QueueLimits:
    classes = {
        klass: ClassLimits(
            weight=settings.class_weights[klass],
            longest_line=settings.class_max_queue.get(klass, settings.max_queue),
            wait_seconds=settings.class_queue_timeout.get(klass, settings.queue_timeout),
            starvation_seconds=settings.starvation_seconds[klass],
        )
        for klass in CLASSES
    }
    return QueueLimits(
        longest_line=settings.max_queue,
        classes=classes,
        lease_seconds=settings.lease_seconds,
        half_life_seconds=settings.service_half_life,
    )


def _metrics(store: Store, lines: Lines, fleet: Fleet) -> Metrics:
    metrics = Metrics()
    metrics.gauge("sekisho_running", "Requests in the engines.", lambda: lines.held)
    metrics.gauge("sekisho_waiting", "Requests waiting for a turn.", lambda: lines.waiting)
    metrics.gauge("sekisho_store_away", "1 while Redis does not answer.", lambda: float(store.away))
    metrics.gauge("sekisho_engine_ready", "1 while an engine takes requests.", lambda: float(fleet.ready))
    metrics.of_backends("sekisho_backend_held", "Requests of this gateway in each backend.", fleet.held)
    metrics.of_backends("sekisho_backend_up", "1 while a backend takes requests.", fleet.up)
    metrics.of_backends("sekisho_backend_stale", "1 while its load figures cannot be believed.", fleet.stale)
    return metrics


async def _put_bootstrap_key(door: Door, key: str) -> None:
    actor = Actor("bootstrap", "SEKISHO_BOOTSTRAP_KEY", "settings", "")
    while True:
        try:
            admin = await local_admin(door.directory)
            await door.key_ring.put(
                actor, key, Key(id="", digest="", owner=f"{User.kind}:{admin.id}", name="bootstrap")
            )
            return
        except StoreAway:
            await asyncio.sleep(_BOOTSTRAP_RETRY_SECONDS)


def _request(scope: dict[str, Any], receive: Receive, send: Send, proxies: Sequence[Network]) -> RequestScope:
    headers = dict(scope["headers"])
    peer = scope.get("client")
    return RequestScope(
        # Ours, not the client's: the engine takes it as its own id, so it has to be unique.
        request_id=os.urandom(16).hex(),
        method=scope["method"],
        path=scope["path"],
        headers=headers,
        header_count=len(scope["headers"]),
        header_bytes=sum(len(name) + len(value) for name, value in scope["headers"]),
        receive=receive,
        send=send,
        received=time.monotonic(),
        repeated=_repeated(scope["headers"]) if len(headers) < len(scope["headers"]) else frozenset(),
        query=scope["query_string"],
        client=client_address(peer[0] if peer else "", headers.get(b"x-forwarded-for", b""), proxies),
    )


def _repeated(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    counts = Counter(name for name, _ in headers)
    return frozenset(name for name, count in counts.items() if count > 1)


def _check_headers(request: RequestScope, settings: Settings) -> None:
    if request.header_count > settings.max_headers or request.header_bytes > settings.max_header_bytes:
        raise HeadersTooLarge(
            f"At most {settings.max_headers} headers of {settings.max_header_bytes} bytes together are taken."
        )


async def _refuse(request: RequestScope, error: DoorError) -> None:
    request.outcome = error.code or "error"
    if isinstance(error, ClientGone):
        request.status = error.status
    elif not request.status:
        await send_error(request, error)
