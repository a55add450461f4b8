"""What was used, summed by user, service account, group, model, key or day, with what it cost. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeVar

import msgspec

from gateway.errors import BadRequest
from gateway.settings import Price
from gateway.store.redis import Store
from gateway.usage import ledger
from gateway.usage.ledger import Booked

T = TypeVar("T")
By = Literal["user", "service_account", "group", "model", "key", "day"]
# As long as the ledger remembers.
MOST_DAYS = 400
# One answer reads no more accounts than this: one a day and subject.
MOST_ACCOUNTS = 200_000
_BREATH = 100

GroupsOf = Callable[[Sequence[str]], Awaitable[Mapping[str, tuple[str, ...]]]]
NamesOf = Callable[[By, Sequence[str]], Awaitable[Mapping[str, str]]]


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """cached_tokens are part of prompt_tokens. estimated: requests cut off before the engine had counted.

    cost: at the prices of now, a decimal number of their currency.
    """

    requests: int = 0
    failed: int = 0
    estimated: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: str = "0"


class UsageRow(Sums, frozen=True, kw_only=True):
    """id: empty for what belongs to none, such as a person's own use where service accounts are asked for."""

    object: Literal["usage.row"] = "usage.row"
    id: str
    name: str | None


class UsageShown(msgspec.Struct, frozen=True, kw_only=True):
    """data: those who used most, or all days. others: the sum of all further rows. total: of everything.

    Who is in several groups counts in each, and once in total.
    """

    object: Literal["usage"] = "usage"
    by: By
    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    data: list[UsageRow]
    others: Sums | None
    total: Sums


class Asked(NamedTuple):
    by: By
    first: date
    last: date
    limit: int  # rows

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=past) for past in range((self.last - self.first).days + 1)]


def asked(by: By, first: date | None, last: date | None, limit: int) -> Asked:
    """Without days: this month (UTC) so far. Raises BadRequest."""
    last = last or datetime.now(UTC).date()
    first = first or last.replace(day=1)
    if first > last:
        raise BadRequest(f"from: {first} is after to, {last}.", param="from")
    if (last - first).days >= MOST_DAYS:
        raise BadRequest(f"from: at most {MOST_DAYS} days can be asked for at once.", param="from")
    return Asked(by, first, last, limit)


async def report(
    store: Store, what: Asked, prices: Mapping[str, Price], groups_of: GroupsOf, names_of: NamesOf
) -> UsageShown:
    """Raises BadRequest where it would take too long, and StoreAway."""
    days = what.days
    await check_size(store, days)
    members = _Members(groups_of)
    sums: dict[str, _Sum] = {}
    total = _Sum()
    async for some in ledger.booked(store, days):
        if what.by == "group":
            await members.learn(some)
        for booked in some:
            total.add(booked)
            for label in members.of(booked) if what.by == "group" else (_label(what.by, booked),):
                sums.setdefault(label, _Sum()).add(booked)
    shown, rest = _chosen(what, sums)
    names = await names_of(what.by, [label for label, _ in shown if label])
    data = [
        UsageRow(id=label, name=names.get(label), **msgspec.structs.asdict(found.told(prices)))
        async for label, found in gently(shown)
    ]
    others = (await _together(rest)).told(prices) if rest else None
    return UsageShown(by=what.by, first=what.first, last=what.last, data=data, others=others, total=total.told(prices))


async def check_size(store: Store, days: Sequence[date]) -> None:
    """Raises BadRequest where reading them all would take too long."""
    if await ledger.accounts(store, days) > MOST_ACCOUNTS:
        raise BadRequest("So many used something on these days that they cannot be summed at once. Ask for fewer days.")


@dataclass(slots=True)
class _Sum:
    """By model, for each has its price."""

    by_model: dict[str, dict[str, int]] = field(default_factory=dict)
    tokens: int = 0

    def add(self, booked: Booked) -> None:
        self.add_amounts(booked.model, booked.amounts)

    def add_amounts(self, model: str, amounts: Mapping[str, int]) -> None:
        sums = self.by_model.setdefault(model, {})
        for what, amount in amounts.items():
            sums[what] = sums.get(what, 0) + amount
        self.tokens += amounts.get("prompt_tokens", 0) + amounts.get("completion_tokens", 0)

    def told(self, prices: Mapping[str, Price]) -> Sums:
        whole: dict[str, int] = {}
        for sums in self.by_model.values():
            for what, amount in sums.items():
                whole[what] = whole.get(what, 0) + amount
        cost = sum((_cost(sums, _price(model, prices)) for model, sums in self.by_model.items()), Decimal(0))
        return Sums(**whole, cost=f"{cost.quantize(Decimal('0.000001')).normalize():f}")


class _Members:
    """Who belongs to which groups, as far as it was asked."""

    def __init__(self, groups_of: GroupsOf) -> None:
        self._groups_of = groups_of
        self._known: dict[str, tuple[str, ...]] = {}

    async def learn(self, some: Iterable[Booked]) -> None:
        if unknown := list({booked.subject for booked in some} - self._known.keys()):
            self._known |= dict.fromkeys(unknown, ()) | dict(await self._groups_of(unknown))

    def of(self, booked: Booked) -> tuple[str, ...]:
        return self._known[booked.subject] or ("",)


def _label(by: By, booked: Booked) -> str:
    program = booked.acting or ("" if booked.subject.startswith("usr_") else booked.subject)
    if by == "user":
        return booked.subject if booked.subject != program else ""
    if by == "service_account":
        return program
    if by == "model":
        return booked.model
    return booked.key_id if by == "key" else booked.day.isoformat()


def _chosen(what: Asked, sums: Mapping[str, _Sum]) -> tuple[list[tuple[str, _Sum]], list[_Sum]]:
    """The rows that are shown, and those that only count."""
    if what.by == "day":
        return sorted(sums.items()), []
    ordered = sorted(sums.items(), key=lambda row: (-row[1].tokens, row[0]))
    return ordered[: what.limit], [found for _, found in ordered[what.limit :]]


async def gently(items: Iterable[T]) -> AsyncIterator[T]:
    """Nobody's stream waits for the end of a long list."""
    for place, item in enumerate(items):
        if place % _BREATH == 0:
            await asyncio.sleep(0)
        yield item


async def _together(rest: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    async for found in gently(rest):
        for model, amounts in found.by_model.items():
            whole.add_amounts(model, amounts)
    return whole


def _price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """A model without a price costs nothing."""
    if model in prices:
        return prices[model]
    return next((price for pattern, price in prices.items() if fnmatchcase(model, pattern)), None)


def _cost(sums: Mapping[str, int], price: Price | None) -> Decimal:
    if price is None:
        return Decimal(0)
    cached = sums.get("cached_tokens", 0)
    fresh = sums.get("prompt_tokens", 0) - cached
    cached_price = price.input if price.cached_input is None else price.cached_input
    whole = fresh * price.input + cached * cached_price + sums.get("completion_tokens", 0) * price.output
    return whole / 1_000_000
