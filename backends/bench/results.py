"""Results that were kept: read from JSON, ours or `vllm bench serve`'s, and set side by side. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Required, TypedDict

import msgspec

from backends.bench.comparison import FIGURES, row
from backends.bench.config import BenchError

Result = Mapping[str, Any]
Number = float | None
_Share = Annotated[float, msgspec.Meta(gt=0)]

_DETAILS = ("start_times", "ttfts", "itls", "input_lens", "output_lens", "errors")
_ALSO_SHOWN = ("p99_ttft_ms", "p99_tpot_ms", "p99_e2el_ms", "request_goodput", "max_kv_cache_usage_perc")


class _Server(TypedDict, total=False):
    times: Required[list[float]]
    num_requests_running: list[Number]
    num_requests_waiting: list[Number]
    num_requests_preempted: list[Number]
    num_preemptions: list[Number]
    kv_cache_usage_perc: list[Number]


class _Kept(TypedDict, total=False):
    """What pages and sheets read of a result, by vLLM's names; more may stand there."""

    completed: int
    failed: int
    repeated_prompts: int
    output_throughput: float
    median_tpot_ms: float
    input_lens: list[int]
    output_lens: list[int]
    ttfts: list[Number]
    itls: list[list[float]]
    start_times: list[float]
    errors: list[str]
    error_counts: dict[str, int]
    goodput: dict[str, _Share] | None
    client_bottlenecks: list[str]
    server_metrics: _Server | None


class _Several(TypedDict, total=False):
    """Of a sweep or of a comparison of servers."""

    runs: list[dict[str, Any]]


def read_results(paths: Iterable[Path]) -> dict[str, Result]:
    """Every run in these files, in their order, by a name that tells it. Raises BenchError, which names the file."""
    named: dict[str, Result] = {}
    for path in paths:
        for name, result in _runs(path):
            named[_free(name, named)] = result
    return named


def compared(runs: Mapping[str, Result]) -> str:
    """A table: a column for each run, and the ratios of the first to each of the others."""
    names = [chr(ord("A") + index) if index < 26 else f"#{index + 1}" for index in range(len(runs))]
    lines = [f"{name}: {run}" for name, run in zip(names, runs, strict=True)]
    lines += ["", row("", names, [f"A / {name}" for name in names[1:]])]
    for figure in (*FIGURES, *_ALSO_SHOWN):
        first, *others = values = [_number(result.get(figure)) for result in runs.values()]
        if any(value is not None for value in values):
            cells = ["-" if value is None else f"{value:.2f}" for value in values]
            lines.append(row(figure, cells, [_ratio(first, other) for other in others]))
    return "\n".join(lines)


def _number(value: object) -> Number:
    return value if isinstance(value, (int, float)) else None


def _ratio(ours: Number, theirs: Number) -> str:
    """Empty where there is none."""
    return f"{ours / theirs:.2f}" if ours is not None and theirs else ""


def _runs(path: Path) -> list[tuple[str, Result]]:
    try:
        held = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        several = msgspec.convert(held, _Several).get("runs")
        if several is None:
            return [(path.stem, _checked(held))]
        return [(f"{path.stem}, {_told_apart(run)}", _checked(run)) for run in several]
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BenchError(f"{path} is no result of a benchmark: {error}") from error


def _checked(result: dict[str, Any]) -> Result:
    kept = msgspec.convert(result, _Kept)
    if "output_throughput" not in kept:
        raise msgspec.ValidationError("expected output_throughput, as sekisho and vllm bench serve write it")
    whole = all(name in kept for name in _DETAILS)  # else they are left out: an older vLLM keeps no start_times
    server: dict[str, Any] = {**(kept.get("server_metrics") or {})}
    for columns in ([result[name] for name in _DETAILS] if whole else [], server.values()):
        if len({len(column) for column in columns}) > 1:
            raise msgspec.ValidationError("expected lists of the same length")
    told = {name: value for name, value in result.items() if value is not None and (whole or name not in _DETAILS)}
    return told | ({"server_metrics": server} if server else {})


def _told_apart(run: Mapping[str, Any]) -> str:
    if "target" in run:
        return f"{run['target']}, round {run.get('round', 1)}"
    return f"{run.get('max_concurrency')} at once"


def _free(name: str, taken: Mapping[str, Result]) -> str:
    number = 2
    told = name
    while told in taken:
        told, number = f"{name} ({number})", number + 1
    return told
