"""While Redis is away: each gateway lets in its share of every limit, from memory, for a stated time. Then no more.

What was let in is settled in Redis when it is back: SETTLE charges what it has no reservation of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.errors import StoreAway
from gateway.quotas.buckets import Bucket, Usage, Weights
from gateway.quotas.estimate import UNLEARNED
from gateway.quotas.headers import Refusal, exceeded
from gateway.quotas.plan import Plan

_MINUTE_MS = 60_000.0


@dataclass(slots=True)
class _Level:
    """Of one bucket since Redis went away: what was let in, less what has drained."""

    value: float = 0.0
    at: float = 0.0


class LocalShare:
    """`replicas`: gateways that share the limits; each takes one part of so many."""

    def __init__(self, minutes: float, replicas: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = minutes * 60
        self._replicas = replicas
        self._clock = clock
        self._until = 0.0  # of this outage; 0: there is none
        self._levels: dict[str, _Level] = {}
        self._taken: dict[str, list[tuple[Bucket, int]]] = {}

    @property
    def is_open(self) -> bool:
        return not self._until or self._clock() < self._until

    def back(self) -> None:
        """Redis answers again: the next outage begins anew."""
        if self._until:
            self._until = 0.0
            self._levels.clear()
            self._taken.clear()

    def reserve(self, plan: Plan) -> int:
        """The output tokens that were reserved. Raises QuotaExceeded, and StoreAway once the time is over."""
        now = self._clock()
        self._until = self._until or now + self._seconds
        if now >= self._until:
            raise StoreAway("The service cannot count requests at the moment. Try again shortly.")
        output = min(plan.room, UNLEARNED)
        size = Usage(1, plan.prompt, 0, output)
        wanted = [(bucket, self._wanted(bucket, size)) for bucket in plan.buckets if not bucket.limit.shadow]
        for bucket, amount in wanted:
            self._check(bucket, amount, now)
        for bucket, amount in wanted:
            self._level(bucket, now).value += amount
        self._taken[plan.request_id] = wanted
        return output

    def settle(self, request_id: str, used: Usage) -> None:
        """Once for each request; nothing for one that Redis let in.

        Of what is counted by the minute nothing is given back: it has drained, and would be lent twice.
        """
        now = self._clock()
        for bucket, amount in self._taken.pop(request_id, ()):
            change = -1 if _kind(bucket) == "z" else _weights(bucket).amount(used) - amount
            if _kind(bucket) in "zc" or change > 0:
                level = self._level(bucket, now)
                level.value = max(0.0, level.value + change)

    def _share_of(self, bucket: Bucket) -> float:
        """A part of the limit, but never less than one of what cannot be divided."""
        return max(1.0, bucket.limit.value / self._replicas)

    def _wanted(self, bucket: Bucket, size: Usage) -> int:
        if _kind(bucket) == "z":
            return 1
        weights = _weights(bucket)
        return min(weights.amount(size), max(int(self._share_of(bucket)), weights.amount(size._replace(output=0))))

    def _check(self, bucket: Bucket, amount: int, now: float) -> None:
        share = self._share_of(bucket)
        left = share - self._level(bucket, now).value
        if amount > left + 1e-6:
            by_the_minute = _kind(bucket) in "af"
            wait = (amount - left) * _MINUTE_MS / share if by_the_minute else (self._until - now) * 1000
            raise exceeded(Refusal(bucket.limit, amount, max(0, int(left)), max(1, int(wait))), None, None)

    def _level(self, bucket: Bucket, now: float) -> _Level:
        """Drained to now."""
        level = self._levels.setdefault(bucket.keys[0], _Level(at=now))
        if _kind(bucket) in "af":
            level.value = max(0.0, level.value - (now - level.at) * 1000 * self._share_of(bucket) / _MINUTE_MS)
        level.at = now
        return level


def _kind(bucket: Bucket) -> str:
    return bucket.rule[0]


def _weights(bucket: Bucket) -> Weights:
    return Weights(*map(int, bucket.rule.split()[6:]))
