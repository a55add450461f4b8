"""Quotas for the pipeline: plan > reserve > progress ... > settle, each a call to be sent along with others.

Knows the policies and which requests of this process hold something; the counting is Redis's.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC
from fnmatch import fnmatchcase
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.errors import InternalError, StoreAway
from gateway.quotas import estimate
from gateway.quotas.applied import Applied, Memory
from gateway.quotas.book import PolicyBook
from gateway.quotas.buckets import Usage, Weights, price_for, price_of
from gateway.quotas.effective import Limit, owner
from gateway.quotas.headers import Rate, Refusal, exceeded
from gateway.quotas.local_share import LocalShare
from gateway.quotas.nearing import Nearing
from gateway.quotas.plan import Plan, Size, check
from gateway.quotas.scripts import LOOK, PROGRESS, RESERVE, SETTLE
from gateway.scope import Principal
from gateway.settings import Price
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call

# As long as a settlement may be sent again; longer where the reaper made it, for its gateway may be frozen, not dead.
MARK_SECONDS = 600
REAPED_MARK_SECONDS = 3600
# Requests in one PROGRESS: long scripts keep everybody else waiting.
_TOGETHER = 32

# The same names and order as the answer of RESERVE.
_RATES = slice(7, 13)
_SHADOWS = slice(13, None)


class Reserved(NamedTuple):
    output: int  # tokens that were reserved for the answer
    requests: Rate | None
    tokens: Rate | None
    shadow: tuple[str, ...]  # what policies in shadow would have refused, a sentence each


class State(NamedTuple):
    """How full a limit is now."""

    limit: Limit
    left: int
    reset_ms: int


class QuotaService:
    """`share`: what goes in while Redis is away; None: nothing does."""

    def __init__(
        self,
        store: Store,
        book: PolicyBook,
        prices: Mapping[str, Price],
        time_zone: str,
        lease_seconds: float,
        share: LocalShare | None = None,
    ) -> None:
        self._store = store
        self._book = book
        self._prices = {pattern: price_of(price) for pattern, price in prices.items()}
        self.nearing = Nearing(store)
        self._memory = Memory(self._price, UTC if time_zone == "UTC" else ZoneInfo(time_zone), self.nearing)
        self._lease_ms = round(lease_seconds * 1000)
        self._share = share
        self._held: dict[str, Plan] = {}
        self._expected = estimate.Expected()

    @property
    def held(self) -> Collection[str]:
        """Ids of this process's requests that have asked and not settled."""
        return self._held.keys()

    @property
    def shares_locally(self) -> bool:
        """Whether requests would be let in now, Redis being away."""
        return self._share is not None and self._share.is_open

    async def plan(self, request_id: str, principal: Principal, model: str, size: Size) -> Plan:
        """Raises StoreAway, ModelNotFound, RequestTooLarge."""
        applied = await self._applied(principal, model)
        checked = check(applied.limits, model, size)
        return Plan(
            request_id,
            owner(principal),
            model,
            size.prompt,
            checked.room,
            checked.output_cap,
            applied,
            checked.shadow,
        )

    def expected_output(self, plan: Plan) -> int:
        """What RESERVE will probably reserve for the answer, by what this process last heard."""
        return self._expected.output(plan.whom, plan.model, plan.room)

    def reserve(self, plan: Plan, note: str = "") -> Call:
        """`note` is what the reaper is given, should this gateway die."""
        self._held[plan.request_id] = plan
        sizes = (plan.prompt, plan.room, estimate.FLOOR, estimate.UNLEARNED, estimate.MARGIN)
        names = "\n".join(plan.keys[3:])
        return RESERVE.call(plan.keys, plan.request_id, self._lease_ms, plan.rules, *sizes, names, note)

    def reserved(self, plan: Plan, answer: Sequence[int]) -> Reserved:
        """What the answer to `reserve` says. Raises QuotaExceeded; `settle` follows all the same."""
        if self._share is not None:
            self._share.back()
        if answer[0] < 0:
            raise InternalError  # settled before it was reserved: it was given up, and nobody waits for this
        requests, tokens = _rates(answer[_RATES])
        if answer[0] == 0:
            asked, left, index, wait = answer[3:7]
            raise exceeded(Refusal(plan.buckets[index - 1].limit, asked, left, wait), requests, tokens)
        self._expected.note(plan.whom, plan.model, answer[2], plan.room)
        over = (plan.buckets[index - 1].limit for index in answer[_SHADOWS])
        refused = (f"{limit.policy}: over {limit.words()} ({limit.why})" for limit in over)
        return Reserved(answer[2], requests, tokens, (*plan.shadow, *refused))

    def reserve_locally(self, plan: Plan) -> Reserved:
        """Instead of Redis, while it is away. Raises QuotaExceeded and StoreAway; `settle` follows all the same."""
        if self._share is None:
            raise StoreAway("The service cannot count requests at the moment. Try again shortly.")
        self._held[plan.request_id] = plan
        return Reserved(self._share.reserve(plan), None, None, plan.shadow)

    def progress(self, streamed: Mapping[str, Usage]) -> list[Call]:
        """The calls that renew the leases of these requests, each with its use so far. Others are left out."""
        known = [(plan, used) for name, used in streamed.items() if (plan := self._held.get(name))]
        return [self._progress(known[start : start + _TOGETHER]) for start in range(0, len(known), _TOGETHER)]

    def settle(self, request_id: str, used: Usage, *, learn: bool = True) -> list[Call]:
        """The call that puts what was used in the place of what was reserved; none for who never asked.

        `learn`: the answer came to its own end, so that its length says something of the next one's. Send it again
        where Redis was away: it settles once.
        """
        plan = self._held.pop(request_id, None)
        if plan is None:
            return []
        if self._share is not None:
            self._share.settle(request_id, used)
        return [settlement(request_id, plan.keys, plan.rules, used, learn=learn and used.output > 0)]

    async def effective(self, principal: Principal, model: str) -> list[Limit]:
        """Raises StoreAway."""
        return list((await self._applied(principal, model)).limits)

    async def allows(self, principal: Principal, model: str) -> bool:
        """Whether no policy keeps the model from them. Raises StoreAway."""
        limits = [one for one in (await self._applied(principal, model)).limits if one.name == "allowed_models"]
        return all(one.shadow or any(fnmatchcase(model, pattern) for pattern in one.models) for one in limits)

    async def state(self, principal: Principal, model: str) -> list[State]:
        """How full the limits are that are counted. Raises StoreAway."""
        applied = await self._applied(principal, model)
        if not applied.buckets:
            return []
        answer = await self._store.run(LOOK.call(applied.keys, applied.rules))
        pairs = zip(applied.buckets, answer[1::2], answer[2::2], strict=True)
        return [State(bucket.limit, left, reset) for bucket, left, reset in pairs]

    async def _applied(self, principal: Principal, model: str) -> Applied:
        try:
            policies = await self._book.all()
        except StoreAway:
            last = self._book.last()
            if self._share is None or last is None:
                raise
            policies = last
        return self._memory.applied(principal, model, policies, _now_ms())

    def _price(self, model: str) -> Weights:
        return price_for(model, self._prices)

    def _progress(self, requests: list[tuple[Plan, Usage]]) -> Call:
        names: list[str] = [keys.RESERVATIONS]
        arguments: list[str | int] = [self._lease_ms]
        for plan, used in requests:
            names += (keys.reservation(plan.request_id), *plan.applied.keys)
            arguments += (plan.request_id, plan.rules, *_plain(used))
        return PROGRESS.call(tuple(names), *arguments)


def settlement(
    request_id: str,
    names: tuple[str, ...],
    rules: str,
    used: Usage,
    *,
    learn: bool,
    claim: str = "",
    mark_seconds: int = MARK_SECONDS,
) -> Call:
    return SETTLE.call(names, request_id, mark_seconds, rules, *_plain(used), int(learn), claim)


def _plain(used: Usage) -> Usage:
    """As the scripts can count it, whatever an engine says."""
    parts = [max(0, part) for part in used]
    return Usage(min(1, parts[0]), parts[1], min(parts[2], parts[1]), parts[3])


def _rates(numbers: Sequence[int]) -> tuple[Rate | None, Rate | None]:
    requests, tokens = Rate(*numbers[:3]), Rate(*numbers[3:])
    return (requests if requests.limit >= 0 else None), (tokens if tokens.limit >= 0 else None)


def _now_ms() -> int:
    return round(time.time() * 1000)


def parse_used(data: bytes | None) -> Usage:
    """What PROGRESS left in a reservation; of one that died before the first, no more is known than that it was."""
    return Usage(*map(int, data.split())) if data else Usage(requests=1)
