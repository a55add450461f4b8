"""The page of `sekisho verify`: six verdicts of each server, with what they rest on. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from backends.bench.pages.document import document, figure, heading, japanese, marked, table
from backends.bench.pages.page import readable_date
from backends.bench.pages.svg import Axis, Series, fitted

Told = Mapping[str, Any]

_STATES = {"holds": ("holds", "成立"), "fails": ("fails", "不成立"), "not run": ("unknown", "未判定")}
_CLAIMS = {
    1: "このマシンでエンジンが起動し、応答する",
    2: "スループットがベースラインの指定倍以上",
    3: "全員が目標の速度を得る",
    4: "ピーク時も TTFT の p95 が上限以内",
    5: "上限の 2 倍でも待つか断られるだけで、エンジンは落ちない",
    6: "スループットが計算上の上限の一定割合に収まる",
}


def verification_page(servers: Sequence[Told]) -> str:
    """Of each server: `url`, `baseline` (or None), `limit`, `date` as in a result, and `verdicts` as `Verdict.to_dict`
    tells them."""
    summary = _summary(servers) if len(servers) > 1 else ""
    return document("Six hypotheses", summary + "".join(map(_server, servers)))


def _summary(servers: Sequence[Told]) -> str:
    """What each server came to, side by side."""
    rows = []
    for number in _CLAIMS:
        found = [[one for one in server["verdicts"] if one["number"] == number] for server in servers]
        claims = [one["claim"] for told in found for one in told]
        cells = "".join(f"<td>{_state(told[0]['state']) if told else ''}</td>" for told in found)
        rows.append(f'<tr><th scope="row">{number} {escape(claims[0]) if claims else ""}</th>{cells}</tr>')
    return f"{heading('Side by side', '一覧')}\n{table('Side by side', [server['url'] for server in servers], rows)}\n"


def _server(server: Told) -> str:
    baseline = escape(server["baseline"]) if server["baseline"] else "–"
    verdicts = server["verdicts"]
    plots = _speeds(verdicts) + _shares(verdicts)
    return (
        f"<h2>{escape(server['url'])}</h2>\n"
        f'<p class="soft">baseline {japanese("ベースライン")}: {baseline} · '
        f"limit {japanese('同時実行の上限')}: {int(server['limit'])} · "
        f"{escape(readable_date(server['date']))} UTC</p>\n"
        f'<ol class="verdicts">\n{"".join(map(_verdict, verdicts))}</ol>\n<div class="plots">\n{plots}</div>\n'
    )


def _verdict(verdict: Told) -> str:
    lines = [f"<p>{marked(verdict['said'])}</p>"]
    if verdict["what_to_do"]:
        lines.append(f"<p>→ {marked(verdict['what_to_do'])}</p>")
    for doubt in verdict["doubts"]:
        slow = japanese("負荷生成側が限界でした")
        lines.append(f"<p>the load generator was a bottleneck, {escape(doubt)} {slow}</p>")
    title = f"{escape(verdict['claim'])} {japanese(_CLAIMS[verdict['number']])}"
    return f"<li>{_state(verdict['state'])} <strong>{title}</strong>{''.join(lines)}</li>\n"


def _state(state: str) -> str:
    style, in_japanese = _STATES[state]
    return f'<span class="state {style}">{escape(state)} {japanese(in_japanese)}</span>'


def _figures(verdicts: Iterable[Told], number: int) -> Told:
    return next((one["figures"] for one in verdicts if one["number"] == number), {})


def _speeds(verdicts: Sequence[Told]) -> str:
    figures = _figures(verdicts, 3)
    points = [(float(at), speed) for at, speed in figures.get("per_person_tok_s", {}).items()]
    if not points:
        return ""
    ends = [(at, figures["wanted"]) for at in (points[0][0], points[-1][0])]
    return figure(
        "Speed of each person",
        "一人あたりの速度",
        fitted("people at once", [at for at, _ in points], logarithmic=True),
        fitted("tok/s (p95)", [speed for _, speed in [*points, *ends]]),
        [Series(points, "c0"), Series(ends, "c1 d1")],
        [f"measured {japanese('実測')}", f"wanted {japanese('目標')}"],
    )


def _shares(verdicts: Sequence[Told]) -> str:
    points = {float(at): point for at, point in _figures(verdicts, 6).get("points", {}).items()}
    runs = [(at, 100 * share) for at, point in points.items() for share in point["runs"]]
    middles = [(at, 100 * point["share"]) for at, point in points.items()]
    return figure(
        "Measured share of the computed bound",
        "計算上の上限に対する実測の割合",
        fitted("people at once", list(points), logarithmic=True),
        Axis("%", 0, max(100.0, *(share for _, share in runs)) if runs else 100.0),
        [Series(middles, "c0"), Series(runs, "c1", "dots", [""] * len(runs))],
        [f"median {japanese('中央値')}", f"each run {japanese('各回')}"],
    )
