"""The page's plots: which figures of the runs stand together, and what they are called. Draws no line itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from backends.bench.pages import figures
from backends.bench.pages.document import figure, japanese
from backends.bench.pages.figures import Result
from backends.bench.pages.svg import Axis, Series, fitted

Runs = Mapping[str, Result]

# What the values are of, in English and Japanese; where they come from; the objective that bounds them.
_DISTRIBUTIONS: tuple[tuple[str, str, Callable[[Result], list[float]], str], ...] = (
    (
        "Time to first token (share of requests)",
        "最初のトークンまでの時間 (リクエストの累積割合)",
        figures.first_tokens_ms,
        "ttft",
    ),
    (
        "Time per output token after the first (share of requests)",
        "2 個目以降の出力トークンあたりの時間 (リクエストの累積割合)",
        figures.later_tokens_ms,
        "tpot",
    ),
    (
        "End-to-end latency (share of requests)",
        "応答が終わるまでの時間 (リクエストの累積割合)",
        figures.latencies_ms,
        "e2el",
    ),
    ("Inter-token latency (share of gaps)", "トークン間の時間 (間隔の累積割合)", figures.gaps_ms, ""),
)

_SERVER_LINES = (
    ("num_requests_running", "c0 d0", "running", "実行中"),
    ("num_requests_waiting", "c1 d1", "waiting", "待機中"),
    ("num_requests_preempted", "c3 d2", "of these, preempted", "うち中断中"),
    ("num_preemptions", "c5 d3", "preemptions so far", "中断の累計"),
)


def plots(runs: Runs) -> str:
    """All of them, as HTML: those of all runs together, then those of each."""
    drawn = [_distribution(runs, *one) for one in _DISTRIBUTIONS]
    drawn += [_throughput_and_speed(runs), _kv_use(runs)]
    for name, result in runs.items():
        which = f": {name}" if len(runs) > 1 else ""
        drawn += [_timeline(which, result), _server_timeline(which, result)]
    return "".join(drawn)


def _key(runs: Runs) -> list[str]:
    return [escape(name) for name in runs] if len(runs) > 1 else []


def _style(index: int) -> str:
    return f"c{index % 6} d{index % 5}"  # thirty that differ


def _distribution(runs: Runs, english: str, there: str, values_of: Callable[[Result], list[float]], slo: str) -> str:
    values = [values_of(result) for result in runs.values()]
    within = _limits(runs, values, slo)
    series = [Series(figures.cumulative(one), _style(index)) for index, one in enumerate(values)]
    pooled = [value for one in values for value in one]
    x = fitted("ms", pooled, logarithmic=not slo, limits=list(within))
    return figure(english, there, x, Axis("%", 0, 100), series, _key(runs), within)


def _limits(runs: Runs, values: Sequence[Sequence[float]], slo: str) -> dict[float, str]:
    """Each objective of that name, and how many of the requests that were answered kept it."""
    said: dict[float, list[str]] = {}
    for result, one in zip(runs.values(), values, strict=True):
        limit = figures.limit_ms(result, slo)
        if limit is not None and one:
            share = sum(value <= limit for value in one) / len(one)
            said.setdefault(limit, []).append(f"{share:.0%}")
    return {
        limit: f"limit {limit:,g} ms: {', '.join(shares)} within {japanese('目標以内')}"
        for limit, shares in said.items()
    }


def _throughput_and_speed(runs: Runs) -> str:
    points = {name: point for name, result in runs.items() if (point := figures.speed_and_throughput(result))}
    names = list(points) if len(points) > 1 else [f"{each:.1f}, {together:.0f}" for each, together in points.values()]
    limits = [limit for result in runs.values() if (limit := figures.limit_ms(result, "tpot"))]
    targets = {1000 / limit: f"target {1000 / limit:.3g} tok/s {japanese('目標')}" for limit in limits}
    return figure(
        "Throughput of all against speed for one person",
        "全体のスループットと一人あたりの速度",
        fitted("tok/s, one person", [*(point[0] for point in points.values()), *targets]),
        fitted("tok/s, all", [point[1] for point in points.values()]),
        [Series(list(points.values()), "c0", "dots", names)],
        limits=targets,
    )


def _timeline(which: str, result: Result) -> str:
    moments = figures.timeline(result)
    return figure(
        f"Requests running{which}",
        f"実行中のリクエスト{which}",
        fitted("s", [moment.at for moment in moments]),
        fitted("requests", [moment.running for moment in moments]),
        [
            Series([(moment.at, moment.running) for moment in moments], "waits c0", "area"),
            Series([(moment.at, moment.answering) for moment in moments], "c0", "area"),
        ],
        [
            f"waiting for the first token {japanese('最初のトークン待ち')}",
            f"being answered {japanese('応答中')}",
        ],
    )


def _server_timeline(which: str, result: Result) -> str:
    told = [
        (Series(points, style), f"{english} {japanese(there)}")
        for name, style, english, there in _SERVER_LINES
        if (points := figures.server_series(result, name))
    ]
    points = [point for series, _ in told for point in series.points]
    return figure(
        f"What the server told: requests{which}",
        f"サーバーが報告したリクエスト{which}",
        fitted("s", [at for at, _ in points]),
        fitted("requests", [count for _, count in points]),
        [series for series, _ in told],
        [words for _, words in told],
    )


def _kv_use(runs: Runs) -> str:
    used = [figures.server_series(result, "kv_cache_usage_perc") for result in runs.values()]
    return figure(
        "What the server told: KV cache in use",
        "サーバーが報告した KV キャッシュ使用率",
        fitted("s", [at for one in used for at, _ in one]),
        Axis("%", 0, 100),
        [Series([(at, 100 * use) for at, use in one], _style(index)) for index, one in enumerate(used)],
        _key(runs),
    )
