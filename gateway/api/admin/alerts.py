"""/admin/v1/alerts: what operators should act on now."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from gateway.activity.shown import ActivityShown, shown
from gateway.alerts import Alert, Facts, alerts
from gateway.api.admin.backends import engines_of
from gateway.api.admin.operation import Asked, Operation
from gateway.errors import StoreAway
from gateway.queueing import administration as queue
from gateway.queueing.administration import LineShown
from gateway.routing import administration as backends

_MOST_WAITING = 1000  # of a line; the last of them waits longest


class Alerts(msgspec.Struct, frozen=True):
    """The gravest first. at: Unix seconds."""

    at: int
    data: list[Alert]
    object: Literal["list"] = "list"


async def look(asked: Asked) -> Alerts:
    """What operators should act on now, each with a sentence and what to do; the gravest first"""
    door, now = asked.door, time.time()
    activity, lines = await _told(asked, int(now))
    facts = Facts(
        away=activity is None,
        ready=door.fleet.ready,
        backends=backends.every(engines_of(asked)),
        providers_away=[issuer for issuer, is_away in door.providers.away().items() if is_away],
        budgets=door.quotas.nearing.fullest(),
        activity=activity,
        lines=lines,
        target_seconds=door.settings.target_ttft_seconds,
        now=now,
    )
    return Alerts(int(now), alerts(facts))


async def _told(asked: Asked, now: int) -> tuple[ActivityShown | None, list[LineShown]]:
    """By all gateways; without Redis nothing is known of them, which is an alert of its own."""
    try:
        told = shown(await asked.door.activity.heard(), 0, now)
        waiting = await queue.look(asked.door.store, asked.office.directory, _MOST_WAITING)
    except StoreAway:
        return None, []
    return told, waiting.lines


OPERATIONS = (Operation("GET", "/admin/v1/alerts", look),)
