"""The result of a run, as vLLM's table and as JSON with vLLM's names."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from backends.bench.client import Sample
from backends.bench.config import BenchConfig
from backends.bench.stats import Spread, inter_token_gaps, meets, peak_concurrency, peak_token_rate, spread
from backends.bench.strain import Strain
from backends.bench.watch import ServerLog

_WIDTH = 50
_SPREADS = (
    ("ttft", "TTFT", "Time to First Token"),
    ("tpot", "TPOT", "Time per Output Token (excl. 1st token)"),
    ("itl", "ITL", "Inter-token Latency"),
    ("e2el", "E2EL", "End-to-end Latency"),
    ("client_queue_time", "Client Queue Time", "Client-side Queueing"),
    ("e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """Spreads are in milliseconds, rates per second of `duration`: first send to last finish, warm-ups excluded."""

    config: BenchConfig
    model: str
    date: str
    duration: float
    completed: int
    failed: int
    errors: dict[str, int]
    total_input_tokens: int
    total_output_tokens: int
    total_cached_tokens: int
    counted_by_server: bool  # False: the server sent no usage, and pieces of text were counted as tokens
    good: int
    peak_output_tok_s: float
    peak_concurrency: int
    spreads: dict[str, Spread]
    samples: tuple[Sample, ...]
    strain: Strain = field(default_factory=Strain)  # of the load generator
    server: ServerLog = field(default_factory=ServerLog)
    repeated: int = 0  # requests that said what one before them said

    @property
    def request_throughput(self) -> float:
        return self._rate(self.completed)

    @property
    def output_throughput(self) -> float:
        return self._rate(self.total_output_tokens)

    @property
    def total_token_throughput(self) -> float:
        return self._rate(self.total_input_tokens + self.total_output_tokens)

    @property
    def request_goodput(self) -> float:
        return self._rate(self.good)

    @property
    def good_share(self) -> float:
        """Of all requests sent: a failed one met no SLO."""
        return self.good / (self.completed + self.failed)

    def _rate(self, amount: float) -> float:
        return amount / self.duration if self.duration > 0 else 0.0

    def to_text(self) -> str:
        lines = [_title(" Serving Benchmark Result ", "="), *_rows(self)]
        for name, short, title in _SPREADS:
            if name in self.spreads:
                lines += [_title(title, "-"), *_spread_rows(short, self.spreads[name])]
        return "\n".join([*lines, "=" * _WIDTH, *_remarks(self)])

    def to_dict(self, *, detailed: bool = False) -> dict[str, Any]:
        facts = {**_facts(self), **self.server.to_dict(), **self.strain.to_dict(), **_spread_facts(self)}
        return {**facts, **(_details(self) if detailed else {})}


def make_report(
    config: BenchConfig,
    model: str,
    date: str,
    samples: list[Sample],
    strain: Strain | None = None,
    *,
    server: ServerLog | None = None,
    repeated: int = 0,
) -> Report:
    done = [sample for sample in samples if not sample.error]
    start = min((sample.sent for sample in samples), default=0.0)
    end = max((sample.text_times[-1] for sample in samples if sample.text_times), default=start)
    return Report(
        config=config,
        model=model,
        date=date,
        duration=end - start,
        completed=len(done),
        failed=len(samples) - len(done),
        errors=dict(Counter(sample.error for sample in samples if sample.error).most_common()),
        total_input_tokens=sum(sample.prompt_tokens for sample in done),
        total_output_tokens=sum(sample.output_tokens for sample in done),
        total_cached_tokens=sum(sample.cached_tokens for sample in done),
        counted_by_server=all(sample.counted_by_server for sample in done),
        good=sum(meets(sample, config.goodput) for sample in done),
        peak_output_tok_s=peak_token_rate(done, start),
        peak_concurrency=peak_concurrency(done),
        spreads=_spreads(config, done),
        samples=tuple(samples),
        strain=strain or Strain(),
        server=server or ServerLog(),
        repeated=repeated,
    )


def _spreads(config: BenchConfig, done: list[Sample]) -> dict[str, Spread]:
    """What is waited for here is told where there is a limit to wait for, and added where people come in their time."""
    seconds = {
        "ttft": [sample.ttft for sample in done],
        "tpot": [sample.tpot for sample in done if sample.output_tokens > 1],
        "itl": inter_token_gaps(done),
        "e2el": [sample.e2e for sample in done],
    }
    if config.concurrency is not None:
        seconds["client_queue_time"] = [sample.queued for sample in done]
        if not math.isinf(config.request_rate):
            seconds["e2el_including_client_queue"] = [sample.queued + sample.e2e for sample in done]
    return {name: _milliseconds(values) for name, values in seconds.items()}


def _milliseconds(seconds: list[float]) -> Spread:
    return spread(value * 1000 for value in seconds)


def _title(text: str, fill: str) -> str:
    return f"{text:{fill}^{_WIDTH}}"


def _row(name: str, value: float | int) -> str:
    return f"{name:<40} {value:<10.2f}" if isinstance(value, float) else f"{name:<40} {value:<10}"


def _rows(report: Report) -> list[str]:
    config, server = report.config, report.server.most()
    kv_use = server.get("kv_cache_usage_perc")
    rows: list[tuple[str, float | int | None]] = [
        ("Successful requests:", report.completed),
        ("Failed requests:", report.failed),
        ("Maximum request concurrency:", config.concurrency),
        ("Request rate configured (RPS):", None if math.isinf(config.request_rate) else config.request_rate),
        ("Ramp-up start (RPS):", config.ramp_up_start_rps),
        ("Ramp-up end (RPS):", config.ramp_up_end_rps),
        ("Arrivals at a time:", config.burst_size if config.burst_size > 1 else None),
        ("Speed of the log's replay:", config.replay_speed),
        ("Benchmark duration (s):", report.duration),
        ("Total input tokens:", report.total_input_tokens),
        ("Total cached input tokens:", report.total_cached_tokens or None),
        ("Total generated tokens:", report.total_output_tokens),
        ("Request throughput (req/s):", report.request_throughput),
        ("Request goodput (req/s):", report.request_goodput if config.goodput else None),
        ("Requests within every SLO (%):", 100 * report.good_share if config.goodput else None),
        ("Output token throughput (tok/s):", report.output_throughput),
        ("Peak output token throughput (tok/s):", report.peak_output_tok_s),
        ("Peak concurrent requests:", report.peak_concurrency),
        ("Total token throughput (tok/s):", report.total_token_throughput),
        ("Most requests running in the server:", server.get("num_requests_running")),
        ("Most requests waiting in the server:", server.get("num_requests_waiting")),
        ("Most KV cache in use (%):", None if kv_use is None else 100 * kv_use),
        ("Preemptions:", server.get("num_preemptions")),
    ]  # fmt: skip
    return [_row(name, value) for name, value in rows if value is not None]


def _spread_rows(name: str, values: Spread) -> list[str]:
    return [
        _row(f"Mean {name} (ms):", values.mean),
        _row(f"Median {name} (ms):", values.median),
        _row(f"P95 {name} (ms):", values.p95),
        _row(f"P99 {name} (ms):", values.p99),
    ]


def _remarks(report: Report) -> list[str]:
    remarks = [f"{count} x {error}" for error, count in list(report.errors.items())[:5]]
    if not report.counted_by_server:
        remarks.append("The server sent no usage: pieces of text were counted as tokens.")
    if report.repeated:
        remarks.append(f"{report.repeated} requests repeat another: a server that caches prefixes knows them.")
    if report.server.absent:
        remarks.append(f"Of the server, {report.server.absent}.")
    if bottlenecks := report.strain.bottlenecks:
        remarks += [
            "The load generator was a bottleneck: the server may be better than these figures.",
            *(f"  {reason}" for reason in bottlenecks),
            "  Run it on another machine than the server's, or share the load out over several of them.",
        ]
    return remarks


def _facts(report: Report) -> dict[str, Any]:
    config = report.config
    return {
        "date": report.date,
        "backend": config.endpoint,
        "model_id": report.model,
        "dataset_name": config.dataset_name,
        "repeated_prompts": report.repeated,
        "num_prompts": report.completed + report.failed,
        "request_rate": "inf" if math.isinf(config.request_rate) else config.request_rate,
        "burstiness": "inf" if math.isinf(config.burstiness) else config.burstiness,
        "burst_size": config.burst_size,
        "ramp_up_strategy": config.ramp_up_strategy,
        "ramp_up_start_rps": config.ramp_up_start_rps,
        "ramp_up_end_rps": config.ramp_up_end_rps,
        "replay_speed": config.replay_speed,
        "max_concurrency": config.concurrency,
        "duration": report.duration,
        "completed": report.completed,
        "failed": report.failed,
        "total_input_tokens": report.total_input_tokens,
        "total_cached_tokens": report.total_cached_tokens,
        "total_output_tokens": report.total_output_tokens,
        "request_throughput": report.request_throughput,
        "request_goodput": report.request_goodput if config.goodput else None,
        "goodput": dict(config.goodput) or None,
        "good_share": report.good_share if config.goodput else None,
        "output_throughput": report.output_throughput,
        "total_token_throughput": report.total_token_throughput,
        "max_output_tokens_per_s": report.peak_output_tok_s,
        "max_concurrent_requests": report.peak_concurrency,
        "error_counts": report.errors,
        "counted_by_server": report.counted_by_server,
    }


def _spread_facts(report: Report) -> dict[str, float]:
    return {
        f"{statistic}_{name}_ms": value
        for name, values in report.spreads.items()
        for statistic, value in values._asdict().items()
    }


def _details(report: Report) -> dict[str, Any]:
    samples = report.samples
    first = min((sample.sent for sample in samples), default=0.0)
    return {
        "server_metrics": report.server.series(first) or None,
        "input_lens": [sample.prompt_tokens for sample in samples],
        "output_lens": [sample.output_tokens for sample in samples],
        "ttfts": [sample.ttft if sample.text_times else None for sample in samples],
        "latencies": [sample.e2e if sample.text_times else None for sample in samples],
        "queue_times": [sample.queued for sample in samples],
        "itls": [inter_token_gaps([sample]) for sample in samples],
        "start_times": [sample.sent - first for sample in samples],
        "errors": [sample.error for sample in samples],
    }
