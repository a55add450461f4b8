"""One backend as administrators and metrics see it. Pure."""

from __future__ import annotations

import msgspec

from gateway.routing.member import Member


class BackendShown(msgspec.Struct, frozen=True, kw_only=True):
    """running, waiting, kv_use: as the engine says; null: it does not say. held: requests of this gateway there.

    share: of its capacity that it is given now, were it among others. retry_seconds: until it is tried again, where
    that is known. prompt_tokens_per_second: of what its cache does not hold, as measured lately. slowness: how many
    times slower than that first tokens came lately.
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


def shown(member: Member, line: str, now: float) -> BackendShown:
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
    )
