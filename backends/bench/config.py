"""What to measure: a frozen description of one run, and all that is wrong with it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SLO_NAMES = ("ttft", "tpot", "e2el")


class BenchError(Exception):
    """The run cannot start or be read: the message says what to do."""


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """One run. `url` is http(s)://host:port (with or without /v1) or unix:/path/to/socket."""

    url: str = "http://127.0.0.1:8080"
    endpoint: str = "chat"  # or "completions"
    model: str | None = None  # None: the first that the server lists
    api_key: str | None = None
    num_requests: int = 100
    input_tokens: int = 128  # as the server counts them, chat template included
    output_tokens: int = 128
    shared_prefix_tokens: int = 0  # of the input, the same in every request
    concurrency: int | None = None  # None: no limit
    request_rate: float = math.inf  # requests per second; inf: all at once
    burstiness: float = 1.0  # shape of the gamma arrivals: 1 Poisson, below 1 burstier, inf constant
    num_warmups: int = 1
    goodput: Mapping[str, float] = field(default_factory=dict)  # SLO name > milliseconds
    ignore_eos: bool = True  # False for services that refuse the field
    seed: int = 0
    timeout_s: float = 600.0


def validate(config: BenchConfig) -> list[str]:
    """Every fault, each naming the field, its value and what was expected."""
    checks = [
        (config.url.startswith(("http://", "https://", "unix:")), "url", config.url, "http://, https:// or unix:"),
        (config.endpoint in ("chat", "completions"), "endpoint", config.endpoint, "chat or completions"),
        (config.num_requests >= 1, "num_requests", config.num_requests, "at least 1"),
        (config.input_tokens >= 1, "input_tokens", config.input_tokens, "at least 1"),
        (config.output_tokens >= 1, "output_tokens", config.output_tokens, "at least 1"),
        (
            0 <= config.shared_prefix_tokens < config.input_tokens,
            "shared_prefix_tokens",
            config.shared_prefix_tokens,
            f"0 or more and below the {config.input_tokens} input tokens",
        ),
        (config.concurrency is None or config.concurrency >= 1, "concurrency", config.concurrency, "at least 1"),
        (config.request_rate > 0, "request_rate", config.request_rate, "above 0"),
        (config.burstiness > 0, "burstiness", config.burstiness, "above 0"),
        (config.num_warmups >= 0, "num_warmups", config.num_warmups, "0 or more"),
        (config.timeout_s > 0, "timeout_s", config.timeout_s, "above 0"),
        (set(config.goodput) <= set(SLO_NAMES), "goodput", ", ".join(config.goodput), ", ".join(SLO_NAMES)),
    ]
    return [f"{name} is {value!r}: expected {wanted}" for holds, name, value, wanted in checks if not holds]


def parse_goodput(terms: Iterable[str]) -> dict[str, float]:
    """`ttft:2000 tpot:50` (milliseconds), as one text or several."""
    slos: dict[str, float] = {}
    for term in " ".join(terms).split():
        name, _, value = term.partition(":")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if name not in SLO_NAMES or not limit > 0:
            raise BenchError(f"goodput term {term!r}: expected NAME:MILLISECONDS with a name of {', '.join(SLO_NAMES)}")
        slos[name] = limit
    return slos
