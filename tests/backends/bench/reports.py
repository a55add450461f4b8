"""Reports as runs would have made them, for tests of what is concluded."""

from __future__ import annotations

from backends.bench.client import Sample
from backends.bench.config import BenchConfig
from backends.bench.report import Report, make_report


def report(
    at: int = 1, *, each: float = 50.0, ttft: float = 0.1, errors: tuple[str, ...] = (), rounds: int = 2
) -> Report:
    """A closed loop of `at`: each answer of 21 tokens at `each` tok/s after `ttft` seconds, and failures beside it."""
    samples = []
    for turn in range(rounds):
        sent = turn * (ttft + 20 / each)
        times = [sent + ttft + step / each for step in range(21)]
        samples += [Sample(sent, list(times), 64, 21, 0, True) for _ in range(at)]
    samples += [Sample(error=error) for error in errors]
    return make_report(BenchConfig(concurrency=at), "m", "d", samples)
