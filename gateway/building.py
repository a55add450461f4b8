"""The parts of the door, put together: reads as the list of what exists. Starts none of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter

from backends.base import Backend
from gateway.activity import totals
from gateway.activity.shared import Activity
from gateway.activity.slots import Amounts, Recorder
from gateway.admission import Admission
from gateway.api.door import Door
from gateway.attempts import Means
from gateway.batches.book import Book
from gateway.batches.files import Files
from gateway.batches.run import Ask, Parts
from gateway.batches.runner import Runner
from gateway.booking import Booking
from gateway.chat.parts import Chat, chat
from gateway.chat.running import Serve
from gateway.identity.absent import Absent
from gateway.identity.api_keys import ApiKeys, KeyRing
from gateway.identity.authentication import Authentication
from gateway.identity.base import Identifier
from gateway.identity.behalf import Behalf
from gateway.identity.browsers import browsers
from gateway.identity.group_book import GroupBook
from gateway.identity.jwt_bearer import JwtBearer
from gateway.identity.oidc.provider import Providers
from gateway.identity.open_webui import OpenWebUI
from gateway.identity.people import People
from gateway.identity.revocation import Revocation
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
from gateway.quotas.nearing import NEAR
from gateway.quotas.policy import COUNTED
from gateway.quotas.reaper import Reaper
from gateway.quotas.service import QuotaService
from gateway.rooms import Rooms
from gateway.routing.fleet import Fleet
from gateway.routing.member import Member, make_member
from gateway.routing.placing import Placing
from gateway.routing.shared import Shared
from gateway.settings import Settings
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.records import Records
from gateway.store.redis import Store
from gateway.store.sealing import Sealer
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.objectives import Objectives


def build(settings: Settings, backends: Mapping[str, Backend], server_key: bytes, ask: Ask, serve: Serve) -> Door:
    fleet = _fleet(settings, backends)
    metrics = Metrics(fleet.knows, Objectives(settings.target_ttft_seconds, settings.target_tokens_per_second))
    store = Store(settings.redis, settings.redis_timeout, metrics.redis.observe)
    directory = Directory(Records(store))
    away_seconds = settings.local_share_minutes * 60 if _shares(settings) else 0.0
    lookup = Lookup(directory, settings.key_cache_seconds, away_seconds)
    key_ring = KeyRing(directory, server_key)
    sessions = _sessions(settings, store, server_key)
    lines = Lines(store, _queue_limits(settings))
    rooms = Rooms(fleet, lines, settings.target_tokens_per_second)
    health = Shared(store, os.urandom(8).hex(), fleet.healths, fleet.heard)
    uses = Uses(directory)
    providers = Providers(settings.issuers)
    _show(metrics, store, lines, fleet, providers)
    people = People(directory, lookup, GroupBook(directory, settings.key_cache_seconds, away_seconds), settings.issuers)
    served = browsers(settings, store, sessions, providers, people)
    api_keys = ApiKeys(key_ring, lookup, people, _open_webui(settings), uses)
    identifiers: list[Identifier] = [api_keys, JwtBearer(providers, people), served.cookie]
    authentication = _authentication(settings, identifiers, lookup, metrics)
    revocation = Revocation(store, lookup, sessions, settings.revocation_ends_streams)
    quotas = _quotas(settings, store)
    booking = Booking(settings, store, quotas, lines, fleet, metrics, Recorder())
    activity = Activity(store, os.urandom(8).hex(), booking.recorder, lambda: _figures(booking, metrics, fleet))
    _show_quotas(metrics, quotas, booking)
    orders = Orders(store, rooms.told, fleet.lacks)
    admission = Admission(settings, store, quotas, rooms, booking)
    means = Means(settings, fleet, admission, Overflow(directory, fleet), metrics)
    pipeline = Pipeline(means, authentication, revocation, orders)
    absent = Absent(api_keys, people, authentication.behalf)
    files, batches, runner = _batches(settings, store, directory, metrics, ask, absent)
    return Door(
        settings=settings,
        leaving=asyncio.Event(),
        store=store,
        directory=directory,
        lookup=lookup,
        key_ring=key_ring,
        quotas=quotas,
        lines=lines,
        rooms=rooms,
        orders=orders,
        booking=booking,
        reaper=Reaper(store, settings.lease_seconds, booking.account, booking.book),
        fleet=fleet,
        placing=Placing(directory, fleet, Sealer(server_key, "keys of engines"), settings.engines, settings.aliases),
        health=health,
        activity=activity,
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
        chat=_chat(settings, store, server_key, serve, metrics),
    )


def _fleet(settings: Settings, backends: Mapping[str, Backend]) -> Fleet:
    members = [
        Member(one, backends[one.name]) if one.name in backends else make_member(one) for one in settings.engines
    ]
    return Fleet(members, settings.aliases)


def _sessions(settings: Settings, store: Store, server_key: bytes) -> Sessions:
    sealer = Sealer(server_key, "tokens of sessions")
    return Sessions(store, sealer, settings.session_idle_seconds, settings.session_seconds)


def _shares(settings: Settings) -> bool:
    return settings.redis_away == "local_share"


def _quotas(settings: Settings, store: Store) -> QuotaService:
    book = PolicyBook(Records(store), settings.key_cache_seconds)
    share = LocalShare(settings.local_share_minutes, settings.replicas) if _shares(settings) else None
    return QuotaService(store, book, settings.prices, settings.quota_time_zone, settings.lease_seconds, share)


def _chat(settings: Settings, store: Store, server_key: bytes, serve: Serve, metrics: Metrics) -> Chat:
    made = chat(settings, store, server_key, serve)
    metrics.gauge("sekisho_chat_answers_running", "Answers of the chat under way here.", lambda: made.answers.running)
    return made


def _batches(
    settings: Settings, store: Store, directory: Directory, metrics: Metrics, ask: Ask, absent: Absent
) -> tuple[Files, Book, Runner]:
    folder = settings.files_dir or settings.data_dir / "files"
    files, book = Files(store, directory, folder, settings.max_stored_bytes_per_subject), Book(store, directory)
    parts = Parts(
        directory=directory,
        files=files,
        metrics=metrics,
        ask=ask,
        principal_of=lambda batch: absent.principal(batch.subject, batch.name, batch.key_id, batch.acting),
        parallel=settings.batch_parallel,
        longest_body=settings.max_body_bytes,
    )
    runner = Runner(store, book, parts, settings.lease_seconds)
    metrics.gauge("sekisho_batches_running", "Batches that this gateway runs.", lambda: runner.running)
    return files, book, runner


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


def _figures(booking: Booking, metrics: Metrics, fleet: Fleet) -> tuple[Amounts, Amounts]:
    booking.record()
    return totals.of_metrics(metrics), totals.of_engines(fleet.loads(attrgetter("preemptions")))


def _show(metrics: Metrics, store: Store, lines: Lines, fleet: Fleet, providers: Providers) -> None:
    """What is read only when it is asked for."""
    metrics.gauge("sekisho_running", "Requests in the engines.", lambda: lines.held)
    metrics.gauge("sekisho_waiting", "Requests waiting for a turn.", lambda: lines.waiting)
    metrics.gauge("sekisho_store_away", "1 while Redis does not answer.", lambda: float(store.away))
    metrics.gauge("sekisho_engine_ready", "1 while an engine takes requests.", lambda: float(fleet.ready))
    away = "1 while an identity provider does not answer."
    metrics.of_each("issuer", "sekisho_identity_provider_away", away, providers.away)
    of_backends = partial(metrics.of_each, "backend")
    of_backends("sekisho_permits", "Requests that a backend may have at once, all gateways together.", lines.rooms)
    of_backends("sekisho_backend_held", "Requests of this gateway in each backend.", fleet.held)
    of_backends("sekisho_backend_up", "1 while a backend takes requests.", fleet.up)
    of_backends("sekisho_backend_stale", "1 while its load figures cannot be believed.", fleet.stale)
    told = {
        "running": ("Requests that a backend says it runs.", "running"),
        "waiting": ("Requests that a backend says wait in it.", "waiting"),
        "preempted": ("Of those, the ones that ran before.", "preempted"),
        "kv_usage_ratio": ("Part of its KV cache that a backend says is in use, 0 to 1.", "kv_use"),
    }
    for name, (help_text, figure) in told.items():
        of_backends(f"sekisho_backend_{name}", help_text, partial(fleet.loads, attrgetter(figure)))
    metrics.totals_of_each(
        "backend",
        "sekisho_backend_preemptions",
        "Requests that a backend says it put back to make room, since it started.",
        partial(fleet.loads, attrgetter("preemptions")),
    )
    metrics.gauges(
        "sekisho_backend_state",
        "1 for the state that a backend is in: failing is an open circuit.",
        ("backend", "state"),
        fleet.states,
    )


def _show_quotas(metrics: Metrics, quotas: QuotaService, booking: Booking) -> None:
    metrics.gauge("sekisho_reservations", "Requests that hold a reservation.", lambda: len(quotas.held))
    metrics.gauge("sekisho_unbooked", "Requests that ended and are not booked yet.", lambda: booking.unbooked)
    labels, nearing = ("policy", "limit"), quotas.nearing
    help_text = "Used of a limit by day or month, of whoever used most: 1 is all of it."
    metrics.gauges("sekisho_quota_used_ratio", help_text, labels, nearing.fullest)
    help_text = f"How many have used {NEAR:.0%} of a limit by day or month."
    metrics.gauges("sekisho_quota_near_end", help_text, labels, nearing.near)
    for name in COUNTED:  # so that the first refusal of each is seen as one more
        metrics.quota_refusals.add(name, by=0)
