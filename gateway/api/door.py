"""What a handler may use: the parts of the door, put together by app.py."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.admission import Admission
from gateway.batches.book import Book
from gateway.batches.files import Files
from gateway.batches.runner import Runner
from gateway.identity.api_keys import KeyRing
from gateway.identity.browsers import Browsers
from gateway.identity.oidc.provider import Providers
from gateway.identity.people import People
from gateway.identity.revocation import Revocation
from gateway.identity.sessions import Sessions
from gateway.identity.uses import Uses
from gateway.pipeline import Pipeline
from gateway.queueing.orders import Orders
from gateway.queueing.permits import Permits
from gateway.quotas.reaper import Reaper
from gateway.quotas.service import QuotaService
from gateway.routing.engines import Engines
from gateway.settings import Settings
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.redis import Store
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Door:
    settings: Settings
    store: Store
    directory: Directory
    lookup: Lookup
    key_ring: KeyRing
    quotas: QuotaService
    permits: Permits
    orders: Orders
    admission: Admission
    reaper: Reaper
    engines: Engines
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
