"""One self-contained HTML file about one or several runs: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape

from backends.bench.pages.figures import (
    Result,
    cumulative,
    first_tokens_ms,
    gaps_ms,
    speed_and_throughput,
    timeline,
)
from backends.bench.pages.rows import ROWS, Row, shown
from backends.bench.pages.style import STYLE
from backends.bench.pages.svg import Axis, Series, fitted, plot

Runs = Mapping[str, Result]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # were anything in it ever not escaped, it would do nothing


def html_page(runs: Runs, title: str = "Serving benchmark") -> str:
    """`runs`: a name for each detailed result (`Report.to_dict(detailed=True)`, or vLLM's `--save-detailed`).

    They are drawn together, in this order; without the details of requests there are only the table and one plot.
    """
    plots = "".join(
        [_time_to_first_token(runs), _gaps(runs), _throughput_and_speed(runs)]
        + [_timeline(name, result, len(runs) > 1) for name, result in runs.items()]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(title)}</h1>\n{_about(runs)}\n{_remarks(runs)}<div class="plots">\n{plots}</div>\n'
        f"{_table(runs)}\n"
        "</main>\n</body>\n</html>\n"
    )


def _japanese(text: str) -> str:
    return f'<span lang="ja">{text}</span>' if text else ""


def _heading(english: str, japanese: str) -> str:
    return f"<h2>{english} {_japanese(japanese)}</h2>"


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
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in runs)
    rows = "\n".join(_row(row, runs) for row in ROWS)
    return (
        f'{_heading("Figures", "数値")}\n<div class="wide" tabindex="0" role="region" aria-label="Figures">'
        f"<table>\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _row(row: Row, runs: Runs) -> str:
    head = f"{row.english} {_japanese(row.japanese)}".rstrip()
    if not row.field:
        return f'<tr class="group"><th scope="rowgroup" colspan="{len(runs) + 1}">{head}</th></tr>'
    values = [result.get(row.field) for result in runs.values()]
    if all(value is None for value in values):
        return ""
    return f'<tr><th scope="row">{head}</th>{"".join(f"<td>{escape(shown(value))}</td>" for value in values)}</tr>'


def _figure(english: str, japanese: str, x: Axis, y: Axis, series: Sequence[Series], key: Sequence[str]) -> str:
    """`key`: what each series is called, as HTML; none where it goes without saying. Nothing to see: no figure."""
    if not any(one.points for one in series):
        return ""
    entries = "".join(f"<li>{_swatch(one)}{text}</li>" for one, text in zip(series, key, strict=False))
    caption = f"<figcaption>{escape(english)} {_japanese(escape(japanese))}</figcaption>"
    keyed = f'<ul class="key">{entries}</ul>' if key else ""
    return f"<figure>{caption}{plot(english, x, y, series)}{keyed}</figure>\n"


def _swatch(series: Series) -> str:
    shape = "M0 5H24" if series.kind == "line" else "M0 0H24V10H0Z"
    path = f'<path class="{series.kind} {series.style}" d="{shape}"/>'
    return f'<svg viewBox="0 0 24 10" aria-hidden="true">{path}</svg>'


def _key(runs: Runs) -> list[str]:
    return [escape(name) for name in runs] if len(runs) > 1 else []


def _style(index: int) -> str:
    return f"c{index % 6} d{index % 5}"  # thirty that differ


def _time_to_first_token(runs: Runs) -> str:
    values = [first_tokens_ms(result) for result in runs.values()]
    series = [Series(cumulative(one), _style(index)) for index, one in enumerate(values)]
    return _figure(
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
    return _figure(
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
    return _figure(
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
    return _figure(
        f"Requests running{which}",
        f"実行中のリクエスト{which}",
        fitted("s", [moment.at for moment in moments]),
        fitted("requests", [moment.running for moment in moments]),
        [
            Series([(moment.at, moment.running) for moment in moments], "waits c0", "area"),
            Series([(moment.at, moment.answering) for moment in moments], "c0", "area"),
        ],
        [
            f"waiting for the first token {_japanese('最初のトークン待ち')}",
            f"being answered {_japanese('応答中')}",
        ],
    )


def _remarks(runs: Runs) -> str:
    """What must be known before a figure is believed: errors, guesses, a load generator that was too slow."""
    said = [f"<li>{escape(name)}: {remark}</li>" for name, result in runs.items() for remark in _doubts(result)]
    return f"{_heading('Remarks', '注意')}\n<ul>{''.join(said)}</ul>\n" if said else ""


def _doubts(result: Result) -> list[str]:
    doubts = [f"{count} × {escape(str(error))}" for error, count in (result.get("error_counts") or {}).items()]
    if result.get("counted_by_server") is False:
        counted = "サーバーが使用量を返さなかったため、テキストの断片をトークンとして数えました。"
        doubts.append(f"the server sent no usage: pieces of text were counted as tokens. {_japanese(counted)}")
    if reasons := result.get("client_bottlenecks"):
        slow = "負荷生成側が限界でした。サーバーの実力はこの数値より高い可能性があります。"
        doubts.append(
            "the load generator was a bottleneck, the server may be better than these figures: "
            f"{escape('; '.join(reasons))}. {_japanese(slow)}"
        )
    return doubts
