"""Composition root: puts the parts together and is the ASGI application. Reads as the order in which things happen."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from backends.base import Backend
from backends.telemetry import lines
from gateway import routes
from gateway.admission import queue_class
from gateway.api.chat.answers import into
from gateway.api.door import Door
from gateway.api.http import send_error
from gateway.api.inward import Inward
from gateway.api.pages import send_to_sign_in
from gateway.batches.run import Answer
from gateway.building import build
from gateway.chat.sink import Gathering
from gateway.errors import ClientGone, DoorError, GatewayStopping, HeadersTooLarge, InternalError, StoreAway
from gateway.identity import access
from gateway.identity.addresses import Network, client_address, is_allowed
from gateway.identity.api_keys import local_admin
from gateway.identity.records import Key, User
from gateway.identity.server_key import WrongServerKey, check_server_key, load_server_key
from gateway.reload import Reload
from gateway.scope import Principal, Receive, RequestScope, Send
from gateway.settings import Settings
from gateway.store import schema
from gateway.store.directory import Actor
from gateway.store.redis import Store
from gateway.store.schema import WrongSchema
from gateway.telemetry import logs
from gateway.telemetry.port import MetricsPort
from gateway.telemetry.tracing import Traces
from gateway.web.assets import assets

log = logging.getLogger("sekisho.app")

_RETRY_SECONDS = 0.5


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
        self._agreement: asyncio.Task[None] | None = None
        self.metrics_port: MetricsPort | None = None
        self.traces = Traces(settings, is_allowed)
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

    async def serve(self, request: RequestScope, sink: Gathering) -> None:
        """A request for the chat, whose answer goes into the sink: the same stages, the same refusals."""
        await self._handle(request, lambda: into(self._opened(), request, sink))

    async def _handle(self, request: RequestScope, answer: Callable[[], Awaitable[None]] | None = None) -> None:
        """The outermost stage: whatever happens inside, one answer with a request id, one line in the log."""
        if request.path not in routes.PROBES:
            request.span = self.traces.begin(request)
        with lines.about(request.request_id, request.span.trace_id):
            await self._finish(request, answer)

    async def _finish(self, request: RequestScope, answer: Callable[[], Awaitable[None]] | None) -> None:
        level = logging.INFO
        try:
            await (answer() if answer else self._answer(request))
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
            self.traces.end(request)

    async def _answer(self, request: RequestScope) -> None:
        door = self._opened()
        _check_headers(request, self._settings)
        route, request.path_value = routes.find(request.method, request.path)
        request.route = route.path
        if route.path not in routes.PUBLIC_PATHS:
            with request.span.child("authenticate"):
                request.principal = request.principal or await door.pipeline.authenticate(request)
            # Above this line runs for anyone; below it only for a known principal, public paths excepted.
            access.check_route(request.principal, route.endpoint, route.role)
        await route.handler(door, request)

    def _note(self, request: RequestScope, level: int) -> None:
        seconds = time.monotonic() - request.received
        klass = queue_class(request.principal) if request.principal is not None and request.model else ""
        self._opened().metrics.answered(request, klass, seconds)
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
        assets()  # read now, and not while the first page waits for them
        server_key = load_server_key(self._settings.data_dir)
        self.door = build(self._settings, self._backends, server_key, self.ask, self.serve)
        if recorded := self._settings.record_prompts_of:
            log.warning("prompts and answers of these tenants are recorded: %s", ", ".join(recorded))
        try:
            await self._agree_on_data(self.door.store, server_key)
            await self._open_metrics_port(self.door)
        except (WrongSchema, WrongServerKey, OSError):
            await self.aclose()
            raise
        self.door.fleet.start()
        await self.door.placing.start()
        self.door.rooms.start()
        self.door.health.start()
        self.door.activity.start()
        await self.door.orders.start()
        self.door.booking.start()
        self.door.reaper.start()
        self.door.quotas.nearing.start()
        self.door.revocation.start()
        self.door.providers.start()
        self.door.runner.start()
        if (reload := self._reload) is not None:
            told = "1 while the settings file has changed and cannot be used."
            self.door.metrics.gauge("sekisho_settings_refused", told, lambda: float(reload.refused))
            reload.start()
        if self._settings.bootstrap_key is not None:
            key = self._settings.bootstrap_key.get_secret_value()
            self._bootstrap = asyncio.create_task(_put_bootstrap_key(self.door, key))

    async def _agree_on_data(self, store: Store, server_key: bytes) -> None:
        """That what Redis holds is ours to read. Where Redis is away nobody is let in before that is known."""
        try:
            await _agree(store, server_key, self._settings.data_dir)
        except StoreAway:
            store.hold()
            self._agreement = asyncio.create_task(_agree_later(store, server_key, self._settings.data_dir))

    async def _open_metrics_port(self, door: Door) -> None:
        if self._settings.metrics_port is not None:
            self.metrics_port = MetricsPort(door.metrics, self._settings.metrics_host, self._settings.metrics_port)
            await self.metrics_port.start()

    def leave(self) -> None:
        """It is about to end: /readyz says so, all else goes on."""
        self._opened().leaving.set()

    @property
    def writes(self) -> bool:
        """Whether answers of the chat are under way, which may have no reader now."""
        return self._opened().chat.answers.running > 0

    async def end(self) -> None:
        """Whoever is still answered or waits is told that this gateway ends."""
        door = self._opened()
        await door.chat.answers.aclose()
        door.orders.end_all(GatewayStopping)

    async def aclose(self) -> None:
        door = self._opened()
        for task in filter(None, (self._bootstrap, self._agreement)):
            task.cancel()
        if self._reload is not None:
            await self._reload.aclose()
        if self.metrics_port is not None:
            await self.metrics_port.aclose()
        await door.chat.answers.aclose()
        await door.runner.aclose()
        await door.quotas.nearing.aclose()
        await door.reaper.aclose()
        await door.booking.aclose()
        await door.activity.aclose()
        await door.health.aclose()
        await door.rooms.aclose()
        await door.orders.aclose()
        await door.revocation.aclose()
        await door.browsers.refresher.aclose()
        await door.providers.aclose()
        await door.uses.aclose()
        await door.placing.aclose()
        await door.fleet.aclose()
        await door.store.aclose()
        await self.traces.aclose()

    async def _take_over(self, settings: Settings) -> None:
        await self._opened().placing.take_over(settings.engines, settings.aliases)


async def _agree(store: Store, server_key: bytes, data_dir: Path) -> None:
    await schema.agree(store)
    await check_server_key(store, server_key, data_dir)


async def _agree_later(held: Store, server_key: bytes, data_dir: Path) -> None:
    store = held.beside()
    try:
        while True:
            try:
                await _agree(store, server_key, data_dir)
            except StoreAway:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                held.release()
                return
    except (WrongSchema, WrongServerKey) as error:
        log.critical("nobody is let in until this is mended and the gateway restarted: %s", error)
    finally:
        await store.aclose()


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
            await asyncio.sleep(_RETRY_SECONDS)


def _request(scope: dict[str, Any], receive: Receive, send: Send, proxies: Sequence[Network]) -> RequestScope:
    headers = dict(scope["headers"])
    peer = scope["client"][0] if scope.get("client") else ""
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
        peer=peer,
        client=client_address(peer, headers.get(b"x-forwarded-for", b""), proxies),
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
