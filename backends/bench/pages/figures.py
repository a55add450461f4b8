"""From a detailed result, with vLLM's names, the numbers that are drawn. Draws nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from backends.bench.stats import percentile

Result = Mapping[str, Any]
Point = tuple[float, float]

_MOST_POINTS = 240  # about one for each pixel of a plot


@dataclass(frozen=True, slots=True)
class Request:
    """Seconds; `ttft` and `latency` are None where no text came."""

    start: float
    ttft: float | None
    latency: float | None
    input_tokens: int
    output_tokens: int
    error: str


class Moment(NamedTuple):
    """Means over a small part of the run."""

    at: float
    running: float  # sent, and not at their end
    answering: float  # of these, those whose first token has come


def requests(result: Result) -> list[Request]:
    """In the order in which they were sent; none where the result has no details."""
    names = ("start_times", "ttfts", "itls", "input_lens", "output_lens", "errors")
    columns = [result.get(name, ()) for name in names]
    made = []
    for start, ttft, gaps, input_tokens, output_tokens, error in zip(*columns, strict=True):
        came = ttft is not None and (not error or ttft > 0)  # vLLM writes 0 for a request that failed
        latency = ttft + sum(gaps) if came else None
        made.append(Request(start, ttft if came else None, latency, input_tokens, output_tokens, error))
    first = min((one.start for one in made), default=0.0)  # vLLM's start times count from some other moment
    return sorted((_since(one, first) for one in made), key=lambda one: one.start)


def _since(one: Request, first: float) -> Request:
    return Request(one.start - first, one.ttft, one.latency, one.input_tokens, one.output_tokens, one.error)


def first_tokens_ms(result: Result) -> list[float]:
    """Of requests without an error."""
    return [one.ttft * 1000 for one in requests(result) if one.ttft is not None and not one.error]


def later_tokens_ms(result: Result) -> list[float]:
    """The time per output token after the first, of requests with several and without an error."""
    return [
        (one.latency - one.ttft) * 1000 / (one.output_tokens - 1)
        for one in requests(result)
        if one.ttft is not None and one.latency is not None and one.output_tokens > 1 and not one.error
    ]


def latencies_ms(result: Result) -> list[float]:
    """From sending to the last token, of requests without an error."""
    return [one.latency * 1000 for one in requests(result) if one.latency is not None and not one.error]


def gaps_ms(result: Result) -> list[float]:
    """Between neighbouring pieces of text, of requests without an error."""
    pairs = zip(result.get("itls", ()), result.get("errors", ()), strict=True)
    return [gap * 1000 for gaps, error in pairs if not error for gap in gaps]


def cumulative(values: Sequence[float]) -> list[Point]:
    """(value, percent of all values that are not above it), thinned to what a plot can show."""
    ordered = sorted(values)
    if not ordered:
        return []
    steps = min(len(ordered), _MOST_POINTS)
    return [(percentile(ordered, 100 * step / steps), 100 * step / steps) for step in range(steps + 1)]


def timeline(result: Result) -> list[Moment]:
    """How many requests ran, in even parts of the run. One without any answer has no end, and is left out."""
    told = [
        (one.start, one.start + one.ttft, one.start + one.latency)
        for one in requests(result)
        if one.ttft is not None and one.latency is not None
    ]
    end = max((times[2] for times in told), default=0.0)
    if end <= 0:
        return []
    edges = [end * step / _MOST_POINTS for step in range(_MOST_POINTS + 1)]
    starts, firsts, ends = (_mean_counts(column, edges) for column in zip(*told, strict=True))
    middles = [(before + after) / 2 for before, after in pairwise(edges)]
    parts = zip(middles, starts, firsts, ends, strict=True)
    return [Moment(at, started - ended, first - ended) for at, started, first, ended in parts]


def server_series(result: Result, name: str) -> list[Point]:
    """What the server told of itself, by the name of the figure; none where it told nothing of the kind."""
    told = result.get("server_metrics") or {}
    pairs = zip(told.get("times", ()), told.get(name, ()), strict=False)
    return [(at, value) for at, value in pairs if value is not None]


def limit_ms(result: Result, name: str) -> float | None:
    """Of the run's service level objectives."""
    return (result.get("goodput") or {}).get(name)


def _mean_counts(times: Sequence[float], edges: Sequence[float]) -> list[float]:
    """Between each two edges, the mean over time of how many of `times` have passed."""
    ordered = sorted(times)
    sums = [0.0, *accumulate(ordered)]
    passed = [bisect_right(ordered, edge) for edge in edges]
    integrals = [count * edge - sums[count] for count, edge in zip(passed, edges, strict=True)]
    width = edges[1] - edges[0]
    return [(after - before) / width for before, after in pairwise(integrals)]


def speed_and_throughput(result: Result) -> Point | None:
    """(tokens per second that one person sees, those of all together): the first from the median time per token."""
    per_token = result.get("median_tpot_ms") or 0.0
    return (1000 / per_token, result["output_throughput"]) if per_token > 0 else None
