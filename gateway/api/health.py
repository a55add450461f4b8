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
    """200 if a completion would be taken now; otherwise 503 with what is missing."""
    missing = []
    try:
        await door.store.command("PING")
    except StoreAway:
        missing.append("redis is away")
    if not door.engines.ready:
        missing.append("the engine is away or still loading")
    status = 503 if missing else 200
    await send_json(request, {"status": "ready" if not missing else "not ready", "missing": missing}, status)


async def metrics(door: Door, request: RequestScope) -> None:
    await send_bytes(request, door.metrics.render(), CONTENT_TYPE)
