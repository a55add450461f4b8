"""What a policy is: whom it applies to, on which models, and what it allows. Plain data, as stored."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import ClassVar, Literal

import msgspec

from gateway.store.record import Record

Period = Literal["minute", "day", "month"]
Unit = Literal["requests", "input_tokens", "output_tokens", "tokens"]

PERIODS: tuple[Period, ...] = ("minute", "day", "month")
UNITS: tuple[Unit, ...] = ("requests", "input_tokens", "output_tokens", "tokens")
# What is counted in Redis, and what one look at a request decides.
COUNTED = (
    *(f"{unit}_per_{period}" for period in PERIODS for unit in UNITS),
    "concurrent_requests",
    "cost_per_month",
)
PER_REQUEST = ("max_context_tokens", "max_output_tokens", "allowed_models")
LIMITS = (*COUNTED, *PER_REQUEST)

MICRO = 1_000_000


class Weights(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a token counts for, an uncached input token being 1.

    `cached_input` counts in input and total limits, `output` in total limits: a limit of output alone is in plain
    tokens.
    """

    cached_input: float = 1.0
    output: float = 1.0


class Policy(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The id is its name. A limit that is None is none."""

    kind: ClassVar[str] = "policy"

    description: str = ""
    # everyone, user:<id>, group:<name>, service_account:<id>, key:<id>, role:<role>
    applies_to: tuple[str, ...] = ("everyone",)
    models: tuple[str, ...] = ("*",)  # names, `*` matching any run of characters; they share the buckets
    each: bool = True  # every one whom it applies to has buckets of their own; False: all of one entry share them

    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None
    input_tokens_per_day: int | None = None
    output_tokens_per_day: int | None = None
    tokens_per_day: int | None = None
    requests_per_month: int | None = None
    input_tokens_per_month: int | None = None
    output_tokens_per_month: int | None = None
    tokens_per_month: int | None = None
    concurrent_requests: int | None = None
    cost_per_month: str | None = None  # a decimal number of the currency that the prices are in

    max_context_tokens: int | None = None
    max_output_tokens: int | None = None
    allowed_models: tuple[str, ...] | None = None

    weights: Weights = Weights()
    shadow: bool = False  # counted and reported, never enforced

    def amount(self, name: str) -> int | None:
        """A limit as a whole number: money in millionths. None for what is not set or is no number."""
        value = getattr(self, name)
        if name == "cost_per_month":
            return None if value is None else money(value)
        return value if isinstance(value, int) else None


def money(text: str) -> int:
    """Millionths of a unit. Raises ValueError for what is no sum of money."""
    try:
        value = Decimal(text) * MICRO
    except InvalidOperation:
        raise ValueError("expected a decimal number such as 12.50") from None
    if not value.is_finite() or value != value.to_integral_value():
        raise ValueError("expected a decimal number with at most six places")
    return int(value)
