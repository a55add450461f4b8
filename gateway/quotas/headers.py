"""What a client is told of its limits: the official service's headers and errors. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from gateway.errors import QuotaExceeded
from gateway.quotas.effective import Limit
from gateway.quotas.policy import MICRO


class Rate(NamedTuple):
    """The tightest of a client's limits on requests, or on tokens."""

    limit: int
    remaining: int
    reset_ms: int  # until it is whole again


class Refusal(NamedTuple):
    limit: Limit
    asked: int
    left: int
    wait_ms: int  # -1: it will never fit


def rate_headers(requests: Rate | None, tokens: Rate | None) -> list[tuple[bytes, bytes]]:
    found = []
    for name, rate in (("requests", requests), ("tokens", tokens)):
        if rate is not None:
            values = (("limit", rate.limit), ("remaining", rate.remaining), ("reset", duration(rate.reset_ms)))
            found += [(f"x-ratelimit-{what}-{name}".encode(), str(value).encode()) for what, value in values]
    return found


def duration(ms: int) -> str:
    """As the official service writes it: 120ms, 1s, 8.64s, 6m0s, 1h0m0s."""
    if ms < 1000:
        return f"{max(0, ms)}ms"
    minutes, rest = divmod(ms, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def exceeded(refusal: Refusal, requests: Rate | None, tokens: Rate | None) -> QuotaExceeded:
    """The error that names policy, limit, what was asked, and when it frees."""
    limit, wait = refusal.limit, refusal.wait_ms
    kind, code = _type_and_code(limit.name)
    never = wait < 0
    return QuotaExceeded(
        f"Policy {limit.policy!r} ({limit.why}) allows {limit.words()}; {_asked(refusal)}. {_advice(refusal)}",
        type=kind,
        code=code,
        retry_after=None if never else max(1, math.ceil(wait / 1000)),
        limit=limit.name,
        rates=rate_headers(requests, tokens),
    )


def _type_and_code(name: str) -> tuple[str, str]:
    if name.endswith(("_per_day", "_per_month")):
        return "insufficient_quota", "insufficient_quota"
    return ("tokens" if "tokens" in name else "requests"), "rate_limit_exceeded"


def _asked(refusal: Refusal) -> str:
    name, asked, left = refusal.limit.name, refusal.asked, refusal.left
    if name == "cost_per_month":
        return f"{left / MICRO:.6f} are left, and this request may cost {asked / MICRO:.6f}"
    if name == "concurrent_requests":
        return "all of them are in use"
    if "tokens" in name:
        return f"{left} tokens are left, and this request asks for {asked}"
    return f"{left} are left"


def _advice(refusal: Refusal) -> str:
    if refusal.wait_ms < 0:
        return "A request of this size can never be served: shorten it."
    if refusal.limit.name == "concurrent_requests":
        return "Try again when one of them has ended."
    return f"Try again in {duration(max(1000, refusal.wait_ms))}."
