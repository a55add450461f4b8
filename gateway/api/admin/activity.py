"""/admin/v1/activity: what went on in the last minutes, of all gateways together."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from gateway.activity.shown import ActivityShown, SubjectActivity, shown
from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import members
from gateway.identity.administration.forms import ActivityQuery
from gateway.identity.records import ServiceAccount, User
from gateway.usage import ledger


async def look(asked: Asked, query: ActivityQuery) -> ActivityShown:
    """Speeds and times of the last minute by model, backend, person and program; tokens a second over five minutes"""
    found = shown(await asked.door.activity.heard(), query.limit, int(time.time()))
    return msgspec.structs.replace(found, subjects=await _known(asked, found.subjects))


async def _known(asked: Asked, subjects: list[SubjectActivity]) -> list[SubjectActivity]:
    """With their names, and what is booked on them today."""
    ids = [one.id for one in subjects]
    names = {**await members.names_of(asked.office, User.kind, [one for one in ids if one.startswith("usr_")])}
    names |= await members.names_of(asked.office, ServiceAccount.kind, [one for one in ids if "/" not in one])
    booked = await ledger.sums(asked.door.store, ids, datetime.now(UTC).date())
    return [
        msgspec.structs.replace(
            one,
            name=names.get(one.id),
            prompt_tokens_today=booked[one.id].get("prompt_tokens", 0),
            completion_tokens_today=booked[one.id].get("completion_tokens", 0),
        )
        for one in subjects
    ]


OPERATIONS = (Operation("GET", "/admin/v1/activity", look),)
