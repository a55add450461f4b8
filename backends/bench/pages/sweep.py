"""The page of `sekisho bench sweep`: what it advises, its points, and the run in the middle of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from backends.bench.pages.document import document, figure, heading, japanese, marked, table
from backends.bench.pages.page import Runs, runs_body
from backends.bench.pages.svg import Series, fitted

Told = Mapping[str, Any]


def sweep_page(sweep: Told, runs: Runs) -> str:
    """`sweep`: `advice`, `doubts`, `target_tok_s` and `points`, each with the names of `Point`; `runs`: detailed
    results by what each is called."""
    advice = "".join(f"<p>{marked(line)}</p>\n" for line in (sweep["advice"], *sweep["doubts"]))
    points = sweep["points"]
    plots = _plot(
        points, "per_person_tok_s", "Speed of each person", "一人あたりの速度", "tok/s (p95)", sweep["target_tok_s"]
    )
    plots += _plot(points, "output_tok_s", "Throughput of all", "全体のスループット", "tok/s", None)
    return document(
        "How many at once",
        f'<div class="advice">{advice}</div>\n<div class="plots">\n{plots}</div>\n{_points(points)}\n'
        f"{heading('The run in the middle of each point', '各点の中央の計測')}\n{runs_body(runs)}",
    )


def _plot(points: Sequence[Told], name: str, english: str, in_japanese: str, label: str, wanted: float | None) -> str:
    measured = [(float(point["concurrency"]), float(point[name])) for point in points]
    series, key = [Series(measured, "c0")], [f"measured {japanese('実測')}"]
    if wanted is not None:
        series.append(Series([(at, wanted) for at, _ in (measured[0], measured[-1])], "c1 d1"))
        key.append(f"wanted {japanese('目標')}")
    return figure(
        english,
        in_japanese,
        fitted("people at once", [at for at, _ in measured], logarithmic=True),
        fitted(label, [value for one in series for _, value in one.points]),
        series,
        key if wanted is not None else [],
    )


def _points(points: Sequence[Told]) -> str:
    heads = ["tok/s", "each, p95", "TTFT p95 (ms)", "answered at a time", "failed", "target"]
    return f"{heading('Points', '計測点')}\n{table('Points', heads, map(_row, points), 'at once')}"


def _row(point: Told) -> str:
    values = [f"{point[name]:.1f}" for name in ("output_tok_s", "per_person_tok_s")]
    values += [
        f"{point['ttft_p95_ms']:.0f}",
        f"{point['decoding']:.1f}",
        str(point["failed"]),
        point["missed"] or "met",
    ]
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{point["concurrency"]}</th>{cells}</tr>'
