"""What to measure: a frozen description of one run, and all that is wrong with it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SLO_NAMES = ("ttft", "tpot", "e2el")
DATASETS = ("random", "sharegpt-like", "rag", "multi-turn", "custom")
RAMPS = ("linear", "exponential")


class BenchError(Exception):
    """The run cannot start or be read: the message says what to do."""


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """One run. `url` is http(s)://host:port (with or without /v1) or unix:/path/to/socket."""

    url: str = "http://127.0.0.1:8080"
    endpoint: str = "chat"  # or "completions"
    model: str | None = None  # None: the first that the server lists
    api_key: str | None = None
    metrics_url: str | None = None  # None: /metrics of the server
    dataset_name: str = "random"  # one of DATASETS
    dataset_path: str | None = None  # of custom: a JSONL, see log.py
    num_requests: int = 100  # turns, where conversations have several
    input_tokens: int = 128  # as the server counts them, chat template included; sharegpt-like: their mean
    output_tokens: int = 128  # sharegpt-like: their mean; custom: of lines that name none
    shared_prefix_tokens: int = 0  # of the input, the same in every request; rag: of an instruction
    num_prefixes: int = 4  # of rag: instructions
    documents_per_prefix: int = 8  # of rag
    document_tokens: int = 0  # of rag, and of the input
    num_turns: int = 4  # of multi-turn: requests in a conversation
    concurrency: int | None = None  # conversations; None: no limit
    request_rate: float = math.inf  # arrivals per second; inf: all at once
    burstiness: float = 1.0  # shape of the gamma arrivals: 1 Poisson, below 1 burstier, inf constant
    burst_size: int = 1  # so many arrive at the same moment; the rate stays
    ramp_up_strategy: str | None = None  # linear or exponential, in the place of request_rate
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    replay_speed: float | None = None  # of custom: as the log's timestamps say, so many times as fast
    num_warmups: int = 1
    goodput: Mapping[str, float] = field(default_factory=dict)  # SLO name > milliseconds
    ignore_eos: bool = True  # False for services that refuse the field
    seed: int = 0
    text_seed: int | None = None  # of the prompts' words alone; None: seed
    timeout_s: float = 600.0


Check = tuple[bool, str, object, str]


def validate(config: BenchConfig) -> list[str]:
    """Every fault, each naming the field, its value and what was expected."""
    checks = [*_server_checks(config), *_dataset_checks(config), *_arrival_checks(config)]
    return [f"{name} is {value!r}: expected {wanted}" for holds, name, value, wanted in checks if not holds]


def _server_checks(config: BenchConfig) -> list[Check]:
    return [
        (config.url.startswith(("http://", "https://", "unix:")), "url", config.url, "http://, https:// or unix:"),
        (
            (config.metrics_url or "http://").startswith(("http://", "https://")),
            "metrics_url",
            config.metrics_url,
            "http:// or https://",
        ),
        (config.endpoint in ("chat", "completions"), "endpoint", config.endpoint, "chat or completions"),
        (config.timeout_s > 0, "timeout_s", config.timeout_s, "above 0"),
        (set(config.goodput) <= set(SLO_NAMES), "goodput", ", ".join(config.goodput), ", ".join(SLO_NAMES)),
    ]


def _dataset_checks(config: BenchConfig) -> list[Check]:
    custom, rag = config.dataset_name == "custom", config.dataset_name == "rag"
    shared = config.shared_prefix_tokens + (config.document_tokens if rag else 0)
    name = "shared_prefix_tokens with document_tokens" if rag else "shared_prefix_tokens"
    return [
        (config.dataset_name in DATASETS, "dataset_name", config.dataset_name, ", ".join(DATASETS)),
        (not custom or bool(config.dataset_path), "dataset_path", config.dataset_path, "a JSONL file with custom"),
        (custom or not config.dataset_path, "dataset_path", config.dataset_path, "none but with dataset_name custom"),
        _at_least(1, "num_requests", config.num_requests),
        _at_least(1, "input_tokens", config.input_tokens),
        _at_least(1, "output_tokens", config.output_tokens),
        _at_least(1 if rag else 0, "shared_prefix_tokens", config.shared_prefix_tokens),
        (shared < config.input_tokens, name, shared, f"below the {config.input_tokens} input tokens"),
        _at_least(1 if rag else 0, "document_tokens", config.document_tokens),
        _at_least(1, "num_prefixes", config.num_prefixes),
        _at_least(1, "documents_per_prefix", config.documents_per_prefix),
        _at_least(1, "num_turns", config.num_turns),
    ]


def _arrival_checks(config: BenchConfig) -> list[Check]:
    ramp = config.ramp_up_strategy
    ends = {"ramp_up_start_rps": config.ramp_up_start_rps, "ramp_up_end_rps": config.ramp_up_end_rps}
    speed = config.replay_speed
    ways = [ramp is not None, speed is not None, not math.isinf(config.request_rate)]
    return [
        (config.concurrency is None or config.concurrency >= 1, "concurrency", config.concurrency, "at least 1"),
        (config.request_rate > 0, "request_rate", config.request_rate, "above 0"),
        (config.burstiness > 0, "burstiness", config.burstiness, "above 0"),
        _at_least(1, "burst_size", config.burst_size),
        (ramp in (None, *RAMPS), "ramp_up_strategy", ramp, " or ".join(RAMPS)),
        *((_is_rate(rate) if ramp else rate is None, name, rate, _expected(ramp)) for name, rate in ends.items()),
        (speed is None or _is_rate(speed), "replay_speed", speed, "above 0"),
        (speed is None or config.dataset_name == "custom", "replay_speed", speed, "a log: dataset_name custom"),
        (speed is None or config.burst_size == 1, "burst_size", config.burst_size, "1 with replay_speed"),
        (sum(ways) <= 1, "request_rate", config.request_rate, "one of request_rate, ramp_up_strategy, replay_speed"),
        _at_least(0, "num_warmups", config.num_warmups),
    ]


def _is_rate(value: float | None) -> bool:
    return value is not None and 0 < value < math.inf


def _expected(ramp: str | None) -> str:
    return f"a finite rate above 0 with a {ramp} ramp" if ramp else "none but with ramp_up_strategy"


def _at_least(least: int, name: str, value: int) -> Check:
    return value >= least, name, value, f"at least {least}"


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
