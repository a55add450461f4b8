"""What an engine says of itself: ready, its models, its kind, its load; and that it lets go of who leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from backends.base import Load, Readiness
from backends.check.engine import OWNERS, Engine
from backends.check.verdicts import Failed, Unsupported

# Some engines tell their load late by seconds.
_NEWS_SECONDS = 15.0
_POLL_SECONDS = 0.2


async def readiness(engine: Engine) -> str:
    found = await engine.backend.readiness()
    if found is not Readiness.READY:
        raise Failed(f"it is {found.value}")
    return "ready"


async def models(engine: Engine) -> str:
    cards = await engine.backend.models()
    card = next((card for card in cards if card.id == engine.model), None)
    if card is None:
        raise Failed(f"{engine.model} is not among the {len(cards)} that it lists")
    if card.context_length is None:
        raise Unsupported(f"{len(cards)} listed, without their context lengths")
    if card.context_length <= 0:
        raise Failed(f"a context of {card.context_length} tokens")
    return f"{len(cards)} listed; {card.id} reads {card.context_length} tokens"


async def kind(engine: Engine) -> str:
    owners = {card.owned_by for card in await engine.backend.models()}
    told = {OWNERS[owner] for owner in owners if owner in OWNERS}
    if not told:
        raise Unsupported(f"its models are owned by {', '.join(sorted(owners)) or 'nobody'}, which tells nothing")
    if engine.backend.kind not in (*told, "openai"):
        raise Failed(f"it is of kind {', '.join(sorted(told))}, not {engine.backend.kind}")
    return ", ".join(sorted(told))


async def load(engine: Engine) -> str:
    """Its figures rise while a long answer is on its way."""
    before = (await engine.backend.load()).running
    if before is None:
        raise Unsupported("it does not tell its load")
    async with engine.endless():
        seen = await _awaited(engine, lambda running: running > before)
    return f"{before} running, then {seen.running}" + (
        "" if seen.kv_use is None else f", {seen.kv_use:.1%} of the cache"
    )


async def abort(engine: Engine) -> str:
    """A stream that is closed early costs nothing further."""
    before = (await engine.backend.load()).running
    async with engine.endless():
        pass
    if before is not None:
        after = await _awaited(engine, lambda running: running <= before)
        return f"{after.running} running, as before"
    async with asyncio.timeout(_NEWS_SECONDS):
        await engine.chat(max_tokens=1)
    return "the next request is served; load is not told"


async def _awaited(engine: Engine, holds: Callable[[int], bool]) -> Load:
    deadline = time.monotonic() + _NEWS_SECONDS
    while True:
        found = await engine.backend.load()
        if holds(found.running or 0):
            return found
        if time.monotonic() > deadline:
            raise Failed(f"it still tells of {found.running} running after {_NEWS_SECONDS:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)
