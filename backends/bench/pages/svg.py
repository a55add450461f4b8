"""Plots as SVG text: numbers in, text out. Knows nothing of what is plotted; colours are the page's classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal
from unicodedata import east_asian_width

Point = tuple[float, float]
_Box = tuple[float, float, float, float]  # left, top, right, bottom

WIDTH, HEIGHT = 360, 230
_LETTER, _LINE = 7.0, 14.0  # what a letter and a line of text take, about
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 24, 38


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`; what lies outside is drawn at the edge. A logarithmic one starts above 0."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        found = _logarithmic_ticks(self.low, self.high) if self.logarithmic else []
        return found if len(found) > 1 else _round_ticks(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Series:
    """Points in the order in which they are joined; `names`, as many, are written beside dots."""

    points: Sequence[Point]
    style: str
    kind: Literal["line", "area", "dots"] = "line"
    names: Sequence[str] = ()


def plot(title: str, x: Axis, y: Axis, series: Sequence[Series], limits: Sequence[float] = ()) -> str:
    """One `<svg>` that fills the width it is given. Points that are not finite are left out; `limits` are upright lines
    at values of x, those within its axis."""
    drawn = "".join(_drawn(one, x, y) for one in series)
    lines = "".join(_limit(x, value) for value in limits if x.low <= value <= x.high)
    inside = f"{_across(x)}{_up(y)}{drawn}{lines}"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def fitted(label: str, values: Sequence[float], *, logarithmic: bool = False, limits: Sequence[float] = ()) -> Axis:
    """An axis that holds all values: from 0, or, logarithmic, from the smallest above 0; and those limits that leave
    the values half of it."""
    finite = [value for value in values if math.isfinite(value)]
    finite += [limit for limit in limits if finite and limit <= 2 * max(finite)]
    high = max(finite, default=0.0)
    if high <= 0:
        return Axis(label, 0.0, 1.0)
    if not logarithmic:
        return Axis(label, 0.0, high * 1.05)
    low = min(value for value in finite if value > 0)
    return Axis(label, low / 1.1, high * 1.1, logarithmic=True)


def short(value: float) -> str:
    """As few digits as tell it: 0.05, 2.5, 1200, 20k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:.4g}k"
    return f"{value:.4g}"


def _round_ticks(low: float, high: float) -> list[float]:
    """Some five multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _logarithmic_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade; powers of ten alone where that would be too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 3 else (1,)
    return [value for decade in decades for factor in factors if low <= (value := factor * 10.0**decade) <= high]


def _limit(x: Axis, value: float) -> str:
    at = _LEFT + x.share(value) * (WIDTH - _LEFT - _RIGHT)
    side, anchor = (-4, "end") if at > WIDTH / 2 else (4, "start")
    return (
        f'<path class="limit" d="M{at:.1f} {_TOP - 6}V{HEIGHT - _BOTTOM}"/>'
        f'<text x="{at + side:.1f}" y="{_TOP - 2}" text-anchor="{anchor}">{short(value)}</text>'
    )


def _place(x: Axis, y: Axis, point: Point) -> tuple[str, str]:
    across = _LEFT + x.share(point[0]) * (WIDTH - _LEFT - _RIGHT)
    up = HEIGHT - _BOTTOM - y.share(point[1]) * (HEIGHT - _TOP - _BOTTOM)
    return f"{across:.1f}", f"{up:.1f}"


def _across(axis: Axis) -> str:
    floor = HEIGHT - _BOTTOM
    parts = []
    for tick in axis.ticks():
        at = f"{_LEFT + axis.share(tick) * (WIDTH - _LEFT - _RIGHT):.1f}"
        parts.append(f'<path class="grid" d="M{at} {_TOP}V{floor}"/>')
        parts.append(f'<text x="{at}" y="{floor + 16}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {floor}H{WIDTH - _RIGHT}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{escape(axis.label)}</text>')
    return "".join(parts)


def _up(axis: Axis) -> str:
    parts = []
    for tick in axis.ticks():
        at = f"{HEIGHT - _BOTTOM - axis.share(tick) * (HEIGHT - _TOP - _BOTTOM):.1f}"
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at}" dy="0.35em" text-anchor="end">{short(tick)}</text>')
    parts.append(f'<text x="2" y="12">{escape(axis.label)}</text>')
    return "".join(parts)


def _drawn(series: Series, x: Axis, y: Axis) -> str:
    kept = [index for index, point in enumerate(series.points) if all(map(math.isfinite, point))]
    places = [_place(x, y, series.points[index]) for index in kept]
    if not places:
        return ""
    if series.kind == "dots":
        return _dots(places, [series.names[index] for index in kept], series.style)
    line = "L".join(" ".join(place) for place in places)
    if series.kind == "area":
        floor = HEIGHT - _BOTTOM
        return f'<path class="area {series.style}" d="M{places[0][0]} {floor}L{line}V{floor}Z"/>'
    return f'<path class="line {series.style}" d="M{line}"/>'


def _dots(places: Sequence[tuple[str, str]], names: Sequence[str], style: str) -> str:
    """Each name stands where it meets no dot and no other name, if there is such a place beside its dot."""
    centres = [(float(across), float(up)) for across, up in places]
    taken: list[_Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in centres]
    parts = [f'<circle class="dot {style}" cx="{across}" cy="{up}" r="4"/>' for across, up in places]
    for (x, y), name in zip(centres, names, strict=True):
        width = _LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in name)
        boxes = [
            (left, top, left + width, top + _LINE)
            for left in (x + 6, x - 6 - width)
            for top in (y + lines * _LINE for lines in (-1, 0, -1.6, 0.6, -2.2, 1.2, -2.8, 1.8))
        ]
        box = next((box for box in boxes if _is_free(box, taken)), boxes[0])
        taken.append(box)
        parts.append(f'<text x="{box[0]:.1f}" y="{box[3] - 3:.1f}">{escape(name)}</text>')
    return "".join(parts)


def _is_free(box: _Box, taken: Sequence[_Box]) -> bool:
    left, top, right, bottom = box
    if left < 0 or right > WIDTH or top < 0 or bottom > HEIGHT - _BOTTOM:
        return False
    return all(left >= other[2] or right <= other[0] or top >= other[3] or bottom <= other[1] for other in taken)
