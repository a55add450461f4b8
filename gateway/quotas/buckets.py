"""A limit as Redis sees it: the keys of its bucket and the rule that the scripts read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, cast

from gateway.quotas.effective import Limit
from gateway.quotas.periods import spans
from gateway.quotas.policy import COUNTED, MICRO
from gateway.settings import Price
from gateway.store import keys

_MINUTE_MS = 60_000


class Usage(NamedTuple):
    """What a request used. `requests` is 0 for one that never came to the engine; cached tokens are part of input."""

    requests: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0


class Weights(NamedTuple):
    """What each counts for in a bucket, in millionths."""

    request: int = 0
    fresh: int = 0
    cached: int = 0
    output: int = 0

    def amount(self, used: Usage) -> int:
        """As the scripts count; cost in millionths of the currency."""
        return whole(self.exact(used))

    def exact(self, used: Usage) -> int:
        """In millionths of what `amount` is in."""
        total = self.request * used.requests + self.fresh * (used.input - used.cached)
        return total + self.cached * used.cached + self.output * used.output


FREE = Weights()


def whole(millionths: int) -> int:
    """What has begun counts."""
    return -(-millionths // MICRO)


class Bucket(NamedTuple):
    limit: Limit
    keys: tuple[str, ...]
    rule: str


def buckets(limits: Sequence[Limit], price: Weights, zone: tzinfo, now_ms: int) -> list[Bucket]:
    """Of all limits that are counted. `now_ms` is this machine's clock; the server's decides between two periods."""
    return [_bucket(limit, price, zone, now_ms) for limit in limits if limit.name in _COUNTED]


def price_of(price: Price) -> Weights:
    """What a token costs in millionths of a millionth: what a million cost, times a million."""
    cached = price.input if price.cached_input is None else price.cached_input
    return Weights(0, *(round(part * MICRO) for part in (price.input, cached, price.output)))


def price_for(model: str, prices: Mapping[str, Weights]) -> Weights:
    """Of a model's name, or of the first pattern that it matches. A model without a price costs nothing."""
    if model in prices:
        return prices[model]
    return next((price for pattern, price in prices.items() if fnmatchcase(model, pattern)), FREE)


_COUNTED = frozenset(COUNTED)


def _bucket(limit: Limit, price: Weights, zone: tzinfo, now_ms: int) -> Bucket:
    unit, _, period = limit.name.partition("_per_")
    weights = weights_of(limit, price)
    if period in ("day", "month"):
        first, second = spans(cast(Literal["day", "month"], period), zone, now_ms)
        names = tuple(keys.quota(limit.policy, limit.name, limit.whom, span.name) for span in (first, second))
        return Bucket(limit, names, _rule("c", limit, unit, first.end_ms, second.end_ms, weights))
    names = (keys.quota(limit.policy, limit.name, limit.whom),)
    kind = "z" if not period else "a" if unit == "requests" else "f"
    return Bucket(limit, names, _rule(kind, limit, unit, _MINUTE_MS, 0, weights))


def _rule(kind: str, limit: Limit, unit: str, first: int, second: int, weights: Weights) -> str:
    told = {"requests": "r", "cost": "-", "concurrent_requests": "-"}.get(unit, "t")
    return " ".join(map(str, (kind, int(limit.shadow), told, limit.value, first, second, *weights)))


def weights_of(limit: Limit, price: Weights) -> Weights:
    """What counts in a limit, and for how much."""
    cached, output = round(limit.weights.cached_input * MICRO), round(limit.weights.output * MICRO)
    return {
        "requests": Weights(request=MICRO),
        "input_tokens": Weights(fresh=MICRO, cached=cached),
        "output_tokens": Weights(output=MICRO),
        "tokens": Weights(fresh=MICRO, cached=cached, output=output),
        "cost": price,
    }.get(limit.name.partition("_per_")[0], FREE)
