"""What a policy would have refused, by what was used day after day. Pure: knows no ledger, no clock and no names.

A limit is replayed as if it stood alone: whatever would have gone past it is over, and the rest of the period with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from gateway.quotas.buckets import Usage, Weights, weights_of, whole
from gateway.quotas.effective import Limit, effective
from gateway.quotas.policy import LIMITS, MICRO, Policy
from gateway.scope import Principal

_MINUTE = "Use is kept by the day: how much of it came within one minute is not known."
_REASONS = {
    "concurrent_requests": "Use is kept by the day: what ran at the same time is not known.",
    "max_context_tokens": "Use is kept in sums: how long a single request was is not known.",
    "max_output_tokens": "Use is kept in sums: how long a single answer was is not known.",
}


class Past(NamedTuple):
    """A day on which a limit would have refused. Amounts are in what the limit counts, money in millionths.

    refused: the day's requests times the part of the day's use that is over, rounded up. Exact where requests are
    counted, and for a model that is not allowed; else it takes the day's requests for equally large.
    """

    day: date
    limit: Limit
    used: int  # in the limit's period, to this day's end
    over: int  # of what was used on this day
    requests: int  # of this day, those that the limit counts
    refused: int


def not_known(policy: Policy) -> dict[str, str]:
    """The limits that use by the day says nothing of, each with the reason."""
    told = [name for name in LIMITS if getattr(policy, name) is not None and not _is_told(name)]
    return {name: _REASONS.get(name, _MINUTE) for name in told}


@dataclass(slots=True)
class _Today:
    limit: Limit
    amount: int = 0  # in millionths
    requests: int = 0

    def past(self, day: date, before: int) -> Past | None:
        """`before`: what was used of the period on days before, in millionths."""
        used, spent = whole(before + self.amount), whole(before)
        over = used - max(self.limit.value, spent)
        if over <= 0:
            return None
        refused = -(-self.requests * over // (used - spent))
        return Past(day, self.limit, used, over, self.requests, refused)


class Replay:
    """`add` all that was used on a day, `end` the day, then go on with a later one.

    Its size is that of one day, and of one month's sums. `price`: what a model's tokens cost, as `buckets.price_of`.
    """

    def __init__(self, policy: Policy, price: Callable[[str], Weights]) -> None:
        untold = dict.fromkeys(not_known(policy))
        # Models are matched here, once each.
        self._policy = msgspec.structs.replace(policy, models=("*",), **untold)
        self._models = policy.models
        self._allowed = policy.allowed_models
        self._price = price
        self._seen: dict[str, tuple[bool, bool, Weights]] = {}
        self._weights: dict[tuple[str, str], Weights] = {}
        self._limits: dict[tuple[str, str, tuple[str, ...], str, str], list[Limit]] = {}  # of those seen today
        self._today: dict[tuple[str, str], _Today] = {}
        self._month = ""
        self._before: dict[tuple[str, str], int] = {}  # what the month's earlier days have used, in millionths

    def add(self, who: Principal, model: str, used: Usage) -> None:
        counts, allowed, price = self._known(model)
        if not counts:
            return
        for limit in self._effective(who):
            # What is refused for its model takes nothing of the other limits.
            if allowed == (limit.name == "allowed_models"):
                continue
            if (weights := self._weights.get((limit.name, model))) is None:
                weights = weights_of(limit, price) if allowed else Weights(request=MICRO)
                self._weights[limit.name, model] = weights
            if (today := self._today.get((limit.name, limit.whom))) is None:
                today = self._today[limit.name, limit.whom] = _Today(limit)
            today.amount += weights.exact(used)
            today.requests += used.requests

    def end(self, day: date) -> list[Past]:
        if self._month != (month := f"{day:%Y-%m}"):
            self._month, self._before = month, {}
        found = []
        for key, today in self._today.items():
            before = self._before.get(key, 0)
            if today.limit.name.endswith("_per_month"):
                self._before[key] = before + today.amount
            if past := today.past(day, before):
                found.append(past)
        self._today, self._limits = {}, {}
        return found

    def _effective(self, who: Principal) -> list[Limit]:
        asking = (who.subject, who.role, who.groups, who.key_id, who.acting)
        if (found := self._limits.get(asking)) is None:
            found = self._limits[asking] = effective(who, "", (self._policy,))
        return found

    def _known(self, model: str) -> tuple[bool, bool, Weights]:
        """Whether the policy means the model, whether it allows it, and the model's price."""
        if (found := self._seen.get(model)) is None:
            allowed = self._allowed is None or _matches(model, self._allowed)
            found = self._seen[model] = (_matches(model, self._models), allowed, self._price(model))
        return found


def _is_told(name: str) -> bool:
    return name == "allowed_models" or name.endswith(("_per_day", "_per_month"))


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in patterns)
