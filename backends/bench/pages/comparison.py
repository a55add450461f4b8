"""The page of `sekisho bench serve --baseline`: servers side by side with their ratios, and every run."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from backends.bench.pages.document import document, heading, japanese, table
from backends.bench.pages.page import Runs, runs_body
from backends.bench.pages.rows import shown

Told = Mapping[str, Any]


def comparison_page(comparison: Told, runs: Runs) -> str:
    """`comparison` as `Comparison.to_dict` tells it; `runs`: detailed results by what each is called."""
    names = [chr(ord("A") + at) for at in range(len(comparison["targets"]))]
    heads = [*names, *(f"A / {name}" for name in names[1:])]
    figures = dict.fromkeys(name for medians in comparison["medians"] for name in medians)
    rows = (_row(name, comparison) for name in figures)
    return document(
        "Servers compared",
        f"{_servers(names, comparison)}\n{heading('Medians and ratios', '中央値と比')}\n"
        f"{table('Medians and ratios', heads, rows)}\n{_how(comparison)}\n"
        f"{heading('Every run', '各計測')}\n{runs_body(runs)}",
    )


def _servers(names: list[str], comparison: Told) -> str:
    entries = "".join(f"<li>{name}: {escape(url)}</li>" for name, url in zip(names, comparison["targets"], strict=True))
    return f"<ul>{entries}</ul>"


def _how(comparison: Told) -> str:
    told = "Medians of all rounds; of a ratio also the least and the greatest of a round."
    there = "全ラウンドの中央値。比には各ラウンドの最小と最大も示します。"
    ended = f"<p><strong>{escape(comparison['ended'])}</strong></p>\n" if comparison.get("ended") else ""
    return f'{ended}<p class="soft">{told} {japanese(there)}</p>'


def _row(name: str, comparison: Told) -> str:
    cells = [shown(medians.get(name)) for medians in comparison["medians"]]
    for ratios in comparison["ratios"]:
        ratio = ratios[name]
        cells.append("" if ratio is None else f"{ratio['median']:.2f} ({ratio['least']:.2f}–{ratio['greatest']:.2f})")
    figures = "".join(f'<td class="whole">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row"><code>{name}</code></th>{figures}</tr>'
