"""The frame of every page: one self-contained file, no script, nothing fetched. Knows nothing of what is measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from backends.bench.pages.style import STYLE
from backends.bench.pages.svg import Axis, Series, plot

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # were anything in it ever not escaped, it would do nothing


def document(title: str, body: str) -> str:
    """`title` is text, `body` HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


def marked(text: str) -> str:
    """Escaped; what stands in backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def japanese(html: str) -> str:
    return f'<span lang="ja">{html}</span>' if html else ""


def heading(english: str, in_japanese: str) -> str:
    return f"<h2>{english} {japanese(in_japanese)}</h2>"


def table(label: str, heads: Sequence[str], rows: Iterable[str], corner: str = "") -> str:
    """`heads` are texts, `rows` whole <tr> elements. A wide one scrolls in a region that is called `label`."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "\n".join(rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table>\n<thead><tr><td>{escape(corner)}</td>{columns}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def figure(
    english: str,
    in_japanese: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    key: Sequence[str] = (),
    limits: Mapping[float, str] | None = None,
) -> str:
    """`key`: what each series is called, as HTML; none where it goes without saying. `limits`: values of x that are
    marked, and what is said of each, as HTML. Nothing to see: no figure."""
    if not any(one.points for one in series):
        return ""
    limits = limits or {}
    entries = [f"<li>{_swatch(one.kind, one.style)}{text}</li>" for one, text in zip(series, key, strict=False)]
    entries += [f"<li>{_swatch('limit', '')}{text}</li>" for text in limits.values()]
    caption = f"<figcaption>{escape(english)} {japanese(escape(in_japanese))}</figcaption>"
    keyed = f'<ul class="key">{"".join(entries)}</ul>' if entries else ""
    return f"<figure>{caption}{plot(english, x, y, series, list(limits))}{keyed}</figure>\n"


def _swatch(kind: str, style: str) -> str:
    if kind == "dots":
        drawn = f'<circle class="dot {style}" cx="12" cy="5" r="4"/>'
    else:
        shape = "M0 0H24V10H0Z" if kind == "area" else "M0 5H24"
        drawn = f'<path class="{kind} {style}" d="{shape}"/>'
    return f'<svg viewBox="0 0 24 10" aria-hidden="true">{drawn}</svg>'
