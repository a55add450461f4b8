"""One backend as administrators and metrics see it. Pure."""

from __future__ import annotations

import msgspec

from backends.base import Load
from gateway.routing.health import Health
from gateway.routing.prefill import PrefillSpeed


class BackendShown(msgspec.Struct, frozen=True, kw_only=True):
    """running, waiting, kv_use: as the engine says; null: it does not say. held: requests of this gateway there.

    share: of its capacity that it is given now, were it among others. retry_seconds: until it is tried again, where
    that is known. prompt_tokens_per_second: of what its cache does not hold, as measured lately. slowness: how many
    times slower than that first tokens came lately.
    """

    name: str
    kind: str
    state: str
    why: str
    retry_seconds: float | None
    share: float
    held: int
    running: int | None
    waiting: int | None
    kv_use: float | None
    stale: str  # why these figures are not believed; empty: they are
    prompt_tokens_per_second: float
    slowness: float


def shown(
    name: str, kind: str, *, health: Health, load: Load, stale: str, held: int, speed: PrefillSpeed, now: float
) -> BackendShown:
    verdict = health.verdict(now)
    return BackendShown(
        name=name,
        kind=kind,
        state=verdict.state.value,
        why=verdict.why,
        retry_seconds=None if verdict.until is None else max(0.0, verdict.until - now),
        share=health.share(now),
        held=held,
        running=load.running,
        waiting=load.waiting,
        kv_use=load.kv_use,
        stale=stale,
        prompt_tokens_per_second=1 / speed.per_token,
        slowness=health.slowness(now),
    )
