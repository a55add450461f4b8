"""What a handler may use: the parts of the door, put together by app.py."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.activity.shared import Activity
from gateway.batches.book import Book
from gateway.batches.files import Files
from gateway.batches.runner import Runner
from gateway.booking import Booking
from gateway.chat.parts import Chat
from gateway.identity.api_keys import KeyRing
from gateway.identity.browsers import Browsers
from gateway.identity.oidc.provider import Providers
from gateway.identity.people import People
from gateway.identity.revocation import Revocation
from gateway.identity.sessions import Sessions
from gateway.identity.uses import Uses
from gateway.pipeline import Pipeline
from gateway.queueing.lines import Lines
from gateway.queueing.orders import Orders
from gateway.quotas.reaper import Reaper
from gateway.quotas.service import QuotaService
from gateway.rooms import Rooms
from gateway.routing.fleet import Fleet
from gateway.routing.placing import Placing
from gateway.routing.shared import Shared
from gateway.settings import Settings
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.redis import Store
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Door:
    settings: Settings
    leaving: asyncio.Event  # set: this gateway is about to end
    store: Store
    directory: Directory
    lookup: Lookup
    key_ring: KeyRing
    quotas: QuotaService
    lines: Lines
    rooms: Rooms
    orders: Orders
    booking: Booking
    reaper: Reaper
    fleet: Fleet
    placing: Placing
    health: Shared
    activity: Activity
    metrics: Metrics
    pipeline: Pipeline
    revocation: Revocation
    uses: Uses
    sessions: Sessions
    providers: Providers
    people: People
    browsers: Browsers
    files: Files
    batches: Book
    runner: Runner
    chat: Chat
