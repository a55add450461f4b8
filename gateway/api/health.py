"""Liveness, readiness, metrics. Liveness never depends on anything outside this process."""

from __future__ import annotations

from gateway.api.door import Door
from gateway.api.http import send_bytes, send_json
from gateway.errors import StoreAway
from gateway.scope import RequestScope
from gateway.telemetry.metrics import CONTENT_TYPE


async def healthz(door: Door, request: RequestScope) -> None:
    await send_json(request, {"status": "ok"})


async def readyz(door: Door, request: RequestScope) -> None:
    """200 if a completion would be taken now, if need be from the local share of a gateway without its Redis."""
    missing = []
    try:
        await door.store.command("PING")
    except StoreAway:
        missing.append("redis is away")
    shares = bool(missing) and door.quotas.shares_locally and not door.leaving.is_set()
    if door.leaving.is_set():
        missing.append("this gateway is about to end")
    if not door.fleet.ready:
        missing.append("no engine takes requests: each is away or still loading")
        shares = False
    state = "local share" if shares else "not ready" if missing else "ready"
    # How many models, not which: this is told to anybody.
    told = {"status": state, "missing": missing, "draining": len(door.orders.drained)}
    await send_json(request, told, 200 if shares or not missing else 503)


async def metrics(door: Door, request: RequestScope) -> None:
    await send_bytes(request, door.metrics.render(), CONTENT_TYPE)
