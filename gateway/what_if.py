"""With this policy on these days, who would have been refused? Joins ledger, replay and who people are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from heapq import nsmallest
from typing import Literal

import msgspec

from gateway.identity.administration import members
from gateway.identity.administration.forms import WhatIfQuery
from gateway.identity.administration.office import Office
from gateway.identity.people import People
from gateway.identity.records import Key, ServiceAccount, User, as_principal
from gateway.quotas.administration import spoken, value_of
from gateway.quotas.buckets import Usage, price_for, price_of
from gateway.quotas.policy import Policy
from gateway.quotas.what_if import Past, Replay, not_known
from gateway.scope import Principal
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.usage import ledger, report
from gateway.usage.ledger import Booked
from gateway.usage.sheet import safe

_DAYS = 7
_COLUMNS = ("day", "whom", "name", "limit", "value", "why", "used", "over", "requests", "refused")
_NOTES = (
    "Refused requests are an estimate: the day's requests times the part of the day's use that is over, rounded up. "
    "It is exact where a limit counts requests, and for models that are not allowed.",
    "Each limit is replayed alone on what was used: what was refused on these days already is not in it.",
    "Roles and groups are those of now, and costs are at the prices of now.",
)


class WhatIfRow(msgspec.Struct, frozen=True, kw_only=True):
    """One limit on one day (UTC). Amounts are in what the limit counts; costs are decimal numbers.

    whom: who is refused, or the entry of applies_to whose people share the limit. used: in the limit's day or month, to
    this day's end. over: what of this day's use went past the limit. requests: of this day, those that the limit
    counts. refused: about how many of them would have been.
    """

    object: Literal["what_if.row"] = "what_if.row"
    day: date
    whom: str
    name: str | None
    limit: str
    value: int | str | tuple[str, ...]
    why: str
    used: int | str
    over: int | str
    requests: int
    refused: int


class NotKnown(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the policy that the ledger says nothing of."""

    limit: str
    reason: str


class WhatIfShown(msgspec.Struct, frozen=True, kw_only=True):
    """data: the days with the most refused requests first. subjects: how many different `whom` all rows have."""

    object: Literal["what_if"] = "what_if"
    policy: str
    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    data: list[WhatIfRow]
    has_more: bool
    subjects: int
    not_known: list[NotKnown]
    notes: list[str]


async def what_if(
    office: Office, people: People, store: Store, settings: Settings, policy: Policy, query: WhatIfQuery
) -> WhatIfShown:
    """Raises BadRequest where the days make no sense or it would take too long, and StoreAway."""
    asked = _asked(query)
    # A month's limit has been used up by the days before too.
    days = asked._replace(first=asked.first.replace(day=1)).days
    await report.check_size(store, days)
    prices = {pattern: price_of(price) for pattern, price in settings.prices.items()}
    replay = Replay(policy, lambda model: price_for(model, prices))
    known = _Known(office, people)
    worst: list[Past] = []
    whom: set[str] = set()
    for day in days:
        async for some in ledger.booked(store, [day]):
            await known.learn(some)
            async for booked in report.gently(some):
                replay.add(known.who(booked), booked.model, _usage(booked.amounts))
        past = replay.end(day)
        if day >= asked.first:
            worst = nsmallest(asked.limit + 1, (*worst, *past), key=_order)
            whom |= {one.limit.whom for one in past}
    shown = worst[: asked.limit]
    names = await _names(office, {one.limit.whom for one in shown})
    return WhatIfShown(
        policy=policy.id,
        first=asked.first,
        last=asked.last,
        data=[_row(one, names) for one in shown],
        has_more=len(worst) > asked.limit,
        subjects=len(whom),
        not_known=[NotKnown(limit=name, reason=reason) for name, reason in not_known(policy).items()],
        notes=[*_NOTES, *_zone(settings.quota_time_zone)],
    )


def as_csv(found: WhatIfShown) -> str:
    """A row each, for a spreadsheet; without the notes."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(getattr(row, name)) for name in _COLUMNS] for row in found.data)
    return text.getvalue()


def _cell(value: date | int | str | tuple[str, ...] | None) -> date | int | str:
    if isinstance(value, tuple):
        value = ", ".join(value)
    return safe(value or "") if value is None or isinstance(value, str) else value


class _Known:
    """Who the ledger's subjects are now, as far as it was asked."""

    def __init__(self, office: Office, people: People) -> None:
        self._office = office
        self._people = people
        self._found: dict[str, Principal | None] = {}

    async def learn(self, some: Iterable[Booked]) -> None:
        unknown = list({booked.subject for booked in some} - self._found.keys())
        users = await self._people.all_known([one for one in unknown if one.startswith("usr_")])
        programs = await self._office.directory.some(ServiceAccount, [one for one in unknown if "/" not in one])
        self._found |= dict.fromkeys(unknown)
        self._found |= {one.id: as_principal(one) for one in users} | {one.id: as_principal(one) for one in programs}

    def who(self, booked: Booked) -> Principal:
        """As its requests had it. Of who is gone, or known to a program alone, there are no groups."""
        subject = booked.subject
        # A program that names too many people has the rest booked on itself.
        acting = booked.acting if booked.acting != subject else ""
        found = self._found[subject] or Principal(subject, "", "user" if subject.startswith("usr_") else "service", "")
        return replace(found, role="user" if acting else found.role, key_id=booked.key_id, acting=acting)


def _asked(query: WhatIfQuery) -> report.Asked:
    last = query.last or datetime.now(UTC).date()
    first = query.first or last - min(timedelta(days=_DAYS - 1), last - date.min)
    return report.asked("day", first, last, query.limit)


def _usage(amounts: Mapping[str, int]) -> Usage:
    prompt = amounts.get("prompt_tokens", 0)
    cached = min(prompt, amounts.get("cached_tokens", 0))
    return Usage(amounts.get("requests", 0), prompt, cached, amounts.get("completion_tokens", 0))


def _order(past: Past) -> tuple[int, date, str, str]:
    return -past.refused, past.day, past.limit.whom, past.limit.name


async def _names(office: Office, whom: Iterable[str]) -> dict[str, str]:
    """By `whom`."""
    found: dict[str, str] = {}
    ids = [one.partition(":") for one in whom]
    for kind in (User.kind, ServiceAccount.kind, Key.kind):
        names = await members.names_of(office, kind, [rest for scope, _, rest in ids if scope == kind])
        found |= {f"{kind}:{one}": name for one, name in names.items()}
    return found


def _row(past: Past, names: Mapping[str, str]) -> WhatIfRow:
    limit = past.limit
    return WhatIfRow(
        day=past.day,
        whom=limit.whom,
        name=names.get(limit.whom),
        limit=limit.name,
        value=value_of(limit),
        why=limit.why,
        used=spoken(limit, past.used),
        over=spoken(limit, past.over),
        requests=past.requests,
        refused=past.refused,
    )


def _zone(time_zone: str) -> list[str]:
    return [] if time_zone == "UTC" else [f"Days are those of UTC; limits are counted by days of {time_zone}."]
