"""One backend as administrators see it. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.routing.member import Member
from gateway.settings.engines import BackendSettings

# drained: nobody new. disabled: as if the settings did not name it. What runs there may finish in both.
Use = Literal["enabled", "drained", "disabled"]


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """What administrators ordered. added: by them, not by the settings. weight: null where the settings' one holds."""

    added: bool = False
    use: Use = "enabled"
    weight: float | None = None


class BackendShown(msgspec.Struct, frozen=True, kw_only=True):
    """running, waiting, kv_use: as the engine says; null: it does not say. held: requests of this gateway there.

    share: of its capacity that it is given now, were it among others. retry_seconds: until it is tried again, where
    that is known. prompt_tokens_per_second: of what its cache does not hold, as measured lately. slowness: how many
    times slower than that first tokens came lately. Of one that is disabled nothing is measured: null, 0 or empty.
    """

    name: str
    kind: str
    line: str
    tier: int
    external: bool
    models: list[str]
    capacity: int
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
    weight: float
    order: Ordered


def shown(member: Member, line: str, now: float, order: Ordered) -> BackendShown:
    verdict = member.health.verdict(now)
    return BackendShown(
        name=member.name,
        kind=member.backend.kind,
        line=line,
        tier=member.settings.tier,
        external=member.settings.external,
        models=sorted(member.names),
        capacity=member.capacity,
        state=verdict.state.value,
        why=verdict.why,
        retry_seconds=None if verdict.until is None else max(0.0, verdict.until - now),
        share=member.health.share(now),
        held=member.in_flight,
        running=member.load.running,
        waiting=member.load.waiting,
        kv_use=member.load.kv_use,
        stale=member.stale,
        prompt_tokens_per_second=1 / member.speed.per_token,
        slowness=member.health.slowness(now),
        weight=member.settings.weight,
        order=order,
    )


def shown_disabled(settings: BackendSettings, order: Ordered) -> BackendShown:
    return BackendShown(
        name=settings.name,
        kind=settings.kind,
        line="",
        tier=settings.tier,
        external=settings.external,
        models=sorted(settings.models or ()),
        capacity=settings.max_concurrency or 0,
        state="disabled",
        why="An administrator has disabled it.",
        retry_seconds=None,
        share=0.0,
        held=0,
        running=None,
        waiting=None,
        kv_use=None,
        stale="",
        prompt_tokens_per_second=0.0,
        slowness=1.0,
        weight=settings.weight,
        order=order,
    )
