"""/chat/v1/usage: what somebody used this month, and how much of each limit is left to them."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.api.chat.asker import person, send
from gateway.api.door import Door
from gateway.quotas.effective import Limit
from gateway.quotas.policy import MICRO
from gateway.quotas.service import State
from gateway.scope import RequestScope
from gateway.usage import ledger

_AMOUNTS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens")


async def usage(door: Door, request: RequestScope) -> None:
    """Days are those of UTC, as in the ledger, all programs and keys of theirs included."""
    principal = person(request)
    today = datetime.now(UTC).date()
    days = [today.replace(day=1) + timedelta(days=past) for past in range(today.day)]
    found = await asyncio.gather(*(ledger.read(door.store, principal.subject, f"{day:%Y%m%d}") for day in days))
    rows = [
        {"day": day.isoformat(), **{name: amounts.get(name, 0) for name in _AMOUNTS}}
        for day, amounts in zip(days, found, strict=True)
    ]
    await send(request, {"days": rows, "limits": await _limits(door, request)})


async def _limits(door: Door, request: RequestScope) -> list[dict[str, Any]]:
    """Every limit that is counted and holds for them, once, with the models that it holds for."""
    principal = person(request)
    models = [card.id for card in door.fleet.models() if await door.pipeline.may_use(request, card.id)]
    served = sorted({door.fleet.resolve(model) for model in models})
    states = await asyncio.gather(*(door.quotas.state(principal, model) for model in served))
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for model, some in zip(served, states, strict=True):
        for state in some:
            limit = state.limit
            if not limit.shadow:
                row = rows.setdefault((limit.policy, limit.name, limit.whom), _row(state) | {"models": []})
                row["models"].append(model)
    return list(rows.values())


def _row(state: State) -> dict[str, Any]:
    limit, most = state.limit, _amount(state.limit, state.limit.value)
    shared = limit.whom.startswith(("everyone", "group:", "role:"))
    resets = None if limit.name == "concurrent_requests" else math.ceil(time.time() + max(0, state.reset_ms) / 1000)
    return {
        "policy": limit.policy,
        "name": limit.name,
        "limit": most,
        "used": _amount(limit, max(0, limit.value - state.left)),
        "resets_at": resets,
        "shared": shared,
        "sentence": limit.words(),
    }


def _amount(limit: Limit, value: int) -> float:
    """Of money in units, else as it is counted."""
    return value / MICRO if limit.name == "cost_per_month" else value
