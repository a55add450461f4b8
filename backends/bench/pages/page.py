"""One self-contained HTML file about one or several runs: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape

from backends.bench.pages.document import document, figure, heading, japanese, table
from backends.bench.pages.figures import (
    Result,
    cumulative,
    first_tokens_ms,
    gaps_ms,
    speed_and_throughput,
    timeline,
)
from backends.bench.pages.rows import ROWS, Row, shown
from backends.bench.pages.svg import Axis, Series, fitted

Runs = Mapping[str, Result]


def html_page(runs: Runs, title: str = "Serving benchmark") -> str:
    """`runs`: a name for each detailed result (`Report.to_dict(detailed=True)`, or vLLM's `--save-detailed`).

    They are drawn together, in this order; without the details of requests there are only the table and one plot.
    """
    plots = "".join(
        [_time_to_first_token(runs), _gaps(runs), _throughput_and_speed(runs)]
        + [_timeline(name, result, len(runs) > 1) for name, result in runs.items()]
    )
    return document(title, f'{_about(runs)}\n{_remarks(runs)}<div class="plots">\n{plots}</div>\n{_table(runs)}\n')


def _about(runs: Runs) -> str:
    models = dict.fromkeys(str(result.get("model_id", "")) for result in runs.values())
    dates = sorted(_readable(str(result.get("date", ""))) for result in runs.values())
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} – {dates[-1]}"
    return f'<p class="soft">{escape(", ".join(models))} · {escape(when)} UTC</p>'


def _readable(date: str) -> str:
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return date


def _table(runs: Runs) -> str:
    return f"{heading('Figures', '数値')}\n{table('Figures', list(runs), (_row(row, runs) for row in ROWS))}"


def _row(row: Row, runs: Runs) -> str:
    head = f"{row.english} {japanese(row.japanese)}".rstrip()
    if not row.field:
        return f'<tr class="group"><th scope="rowgroup" colspan="{len(runs) + 1}">{head}</th></tr>'
    values = [result.get(row.field) for result in runs.values()]
    if all(value is None for value in values):
        return ""
    return f'<tr><th scope="row">{head}</th>{"".join(f"<td>{escape(shown(value))}</td>" for value in values)}</tr>'


def _key(runs: Runs) -> list[str]:
    return [escape(name) for name in runs] if len(runs) > 1 else []


def _style(index: int) -> str:
    return f"c{index % 6} d{index % 5}"  # thirty that differ


def _time_to_first_token(runs: Runs) -> str:
    values = [first_tokens_ms(result) for result in runs.values()]
    series = [Series(cumulative(one), _style(index)) for index, one in enumerate(values)]
    return figure(
        "Time to first token (share of requests)",
        "最初のトークンまでの時間 (リクエストの累積割合)",
        fitted("ms", [value for one in values for value in one]),
        Axis("%", 0, 100),
        series,
        _key(runs),
    )


def _gaps(runs: Runs) -> str:
    values = [gaps_ms(result) for result in runs.values()]
    series = [Series(cumulative(one), _style(index)) for index, one in enumerate(values)]
    return figure(
        "Inter-token latency (share of gaps)",
        "トークン間の時間 (間隔の累積割合)",
        fitted("ms", [value for one in values for value in one], logarithmic=True),
        Axis("%", 0, 100),
        series,
        _key(runs),
    )


def _throughput_and_speed(runs: Runs) -> str:
    points = {name: point for name, result in runs.items() if (point := speed_and_throughput(result))}
    names = list(points) if len(points) > 1 else [f"{each:.1f}, {together:.0f}" for each, together in points.values()]
    dots = Series(list(points.values()), "c0", "dots", names)
    return figure(
        "Throughput of all against speed for one person",
        "全体のスループットと一人あたりの速度",
        fitted("tok/s, one person", [point[0] for point in points.values()]),
        fitted("tok/s, all", [point[1] for point in points.values()]),
        [dots],
        [],
    )


def _timeline(name: str, result: Result, named: bool) -> str:
    moments = timeline(result)
    which = f": {name}" if named else ""
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


def _remarks(runs: Runs) -> str:
    """What must be known before a figure is believed: errors, guesses, a load generator that was too slow."""
    said = [f"<li>{escape(name)}: {remark}</li>" for name, result in runs.items() for remark in _doubts(result)]
    return f"{heading('Remarks', '注意')}\n<ul>{''.join(said)}</ul>\n" if said else ""


def _doubts(result: Result) -> list[str]:
    doubts = [f"{count} × {escape(str(error))}" for error, count in (result.get("error_counts") or {}).items()]
    if result.get("counted_by_server") is False:
        counted = "サーバーが使用量を返さなかったため、テキストの断片をトークンとして数えました。"
        doubts.append(f"the server sent no usage: pieces of text were counted as tokens. {japanese(counted)}")
    if reasons := result.get("client_bottlenecks"):
        slow = "負荷生成側が限界でした。サーバーの実力はこの数値より高い可能性があります。"
        doubts.append(
            "the load generator was a bottleneck, the server may be better than these figures: "
            f"{escape('; '.join(reasons))}. {japanese(slow)}"
        )
    return doubts
