"""One self-contained HTML file about one or several runs: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape

from backends.bench.pages.document import document, heading, japanese, table
from backends.bench.pages.figures import Result
from backends.bench.pages.plots import plots
from backends.bench.pages.rows import ROWS, Row, shown

Runs = Mapping[str, Result]


def html_page(runs: Runs, title: str = "Serving benchmark") -> str:
    """`runs`: a name for each detailed result (`Report.to_dict(detailed=True)`, or vLLM's `--save-detailed`).

    They are drawn together, in this order; without the details of requests there are only the table and one plot.
    """
    return document(title, runs_body(runs))


def runs_body(runs: Runs) -> str:
    """What the page says of the runs, to stand in another one too."""
    return f'{_about(runs)}\n{_remarks(runs)}<div class="plots">\n{plots(runs)}</div>\n{_table(runs)}\n'


def _about(runs: Runs) -> str:
    models = dict.fromkeys(str(result.get("model_id", "")) for result in runs.values())
    dates = sorted(readable_date(str(result.get("date", ""))) for result in runs.values())
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} – {dates[-1]}"
    return f'<p class="soft">{escape(", ".join(models))} · {escape(when)} UTC</p>'


def readable_date(date: str) -> str:
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return date


def _table(runs: Runs) -> str:
    heads = [*runs, "Ratio"] if len(runs) == 2 else list(runs)
    return f"{heading('Figures', '数値')}\n{table('Figures', heads, (_row(row, runs) for row in ROWS))}"


def _row(row: Row, runs: Runs) -> str:
    head = f"{row.english} {japanese(row.japanese)}".rstrip()
    values = [result.get(row.field) for result in runs.values()]
    if all(value is None for value in values):
        return ""
    if row.heads:
        columns = len(runs) + 1 + (len(runs) == 2)
        return f'<tr class="group"><th scope="rowgroup" colspan="{columns}">{head}</th></tr>'
    cells = [shown(value) for value in values] + ([_ratio(*values)] if len(values) == 2 else [])
    return f'<tr><th scope="row">{head}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'


def _ratio(first: object, second: object) -> str:
    """Of two figures, the first to the second; nothing of what is no figure."""
    if isinstance(first, (int, float)) and isinstance(second, (int, float)) and second:
        return f"{first / second:.2f}"
    return ""


def _remarks(runs: Runs) -> str:
    """What must be known before a figure is believed: errors, guesses, a load generator that was too slow."""
    said = [f"<li>{escape(name)}: {remark}</li>" for name, result in runs.items() for remark in _doubts(result)]
    return f"{heading('Remarks', '注意')}\n<ul>{''.join(said)}</ul>\n" if said else ""


def _doubts(result: Result) -> list[str]:
    doubts = [f"{count} × {escape(str(error))}" for error, count in (result.get("error_counts") or {}).items()]
    if repeated := result.get("repeated_prompts"):
        known = "同じプロンプトの繰り返しは、プレフィックスキャッシュに残っています。"
        doubts.append(
            f"{repeated} requests repeat another: a server that caches prefixes knows them. {japanese(known)}"
        )
    if absent := result.get("server_metrics_absent"):
        unknown = "サーバーの内部の状態 (実行中・待機中・KV 使用率) は一部または全部が分かりません。"
        doubts.append(f"of the server, {escape(str(absent))}. {japanese(unknown)}")
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
