"""Plots: where numbers land, what is written beside them, and what they cannot do to the page."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from backends.bench.pages.svg import HEIGHT, WIDTH, Axis, Point, Series, fitted, plot, short

TENTHS = Axis("x", 0, 10)


def drawn(*series: Series, x: Axis = TENTHS, y: Axis = TENTHS) -> ElementTree.Element:
    return ElementTree.fromstring(plot("title", x, y, series))


def line(points: list[Point], x: Axis = TENTHS) -> list[Point]:
    path = drawn(Series(points, "c0"), x=x).find("path[@class='line c0']")
    if path is None:
        return []
    found = re.findall(r"([\d.]+) ([\d.]+)", path.attrib["d"])
    return [(float(across), float(up)) for across, up in found]


def test_a_line_runs_from_corner_to_corner_of_its_axes() -> None:
    (left, floor), (right, top) = line([(0, 0), (10, 10)])
    assert 0 < left < right < WIDTH
    assert 0 < top < floor < HEIGHT
    middle = line([(5, 5)])
    assert middle == [((left + right) / 2, (floor + top) / 2)]


def test_what_lies_outside_of_an_axis_is_drawn_at_its_edge() -> None:
    assert line([(-5, 20)]) == line([(0, 10)])


def test_a_point_that_is_not_finite_is_left_out() -> None:
    assert line([(1, 1), (math.nan, 2), (3, math.inf), (4, 4)]) == line([(1, 1), (4, 4)])
    assert line([(math.nan, 2)]) == []


def test_each_decade_of_a_logarithmic_axis_is_as_wide() -> None:
    places = [across for across, _ in line([(1, 0), (10, 0), (100, 0)], x=Axis("x", 1, 100, logarithmic=True))]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)


def test_an_area_goes_back_to_the_floor() -> None:
    path = drawn(Series([(2, 5), (8, 5)], "c1", "area")).find("path[@class='area c1']")
    assert path is not None
    floor = line([(0, 0)])[0][1]
    assert path.attrib["d"].endswith(f"V{floor:g}Z")


@pytest.mark.parametrize(
    ("low", "high", "logarithmic", "wanted"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 0.3, False, [0, 0.1, 0.2, 0.3]),
        (0, 105, False, [0, 50, 100]),
        (3, 60, True, [5, 10, 20, 50]),
        (0.5, 20_000, True, [1, 10, 100, 1000, 10_000]),
        (41, 44, True, [41, 42, 43, 44]),
        (7, 7, False, [7]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, logarithmic: bool, wanted: list[float]) -> None:
    assert Axis("", low, high, logarithmic).ticks() == pytest.approx(wanted)


def test_the_numbers_at_the_ticks_are_written() -> None:
    written = [text.text for text in drawn(x=Axis("seconds", 0, 30_000), y=Axis("share", 0, 1)).iter("text")]
    for said in ("0", "10k", "20k", "30k", "seconds", "0.2", "0.8", "share"):
        assert said in written


def test_an_axis_holds_what_it_was_fitted_to() -> None:
    straight = fitted("", [3, 9, math.inf])
    assert (straight.low, straight.high > 9, straight.high < 12) == (0, True, True)
    curved = fitted("", [0, 3, 9], logarithmic=True)
    assert 0 < curved.low < 3 < 9 < curved.high
    for nothing in ([], [0.0]):
        assert fitted("", nothing, logarithmic=True) == Axis("", 0, 1)


def test_numbers_are_short() -> None:
    assert [short(value) for value in (0, 0.1 + 0.2, 1200, 9999, 25_000)] == ["0", "0.3", "1200", "9999", "25k"]


def test_names_beside_dots_meet_neither_each_other_nor_the_edge() -> None:
    points: list[Point] = [(1, 9), (1.4, 9.2), (1.8, 9.1), (9.9, 9.9), (9.8, 0.1)]
    names = ["64 at once", "32 at once", "十六人", "one", "a hundred and twenty"]
    root = drawn(Series(points, "c0", "dots", names))
    assert len(root.findall("circle")) == len(points)
    boxes = []
    for text in root.iter("text"):
        if text.text in names:
            width = 6 * len(text.text) * (2 if text.text == "十六人" else 1)
            left, bottom = float(text.attrib["x"]), float(text.attrib["y"])
            assert left >= 0
            assert left + width <= WIDTH
            boxes.append((left, bottom - 9, left + width, bottom))
    assert len(boxes) == len(names)
    for index, one in enumerate(boxes):
        for other in boxes[:index]:
            assert one[0] >= other[2] or one[2] <= other[0] or one[1] >= other[3] or one[3] <= other[1]


def test_words_cannot_become_markup() -> None:
    evil = "<script>&\"'"
    root = ElementTree.fromstring(
        plot(evil, Axis(evil, 0, 1), Axis(evil, 0, 1), [Series([(0.5, 0.5)], "c0", "dots", [evil])])
    )
    assert root.attrib["aria-label"] == evil
    assert [text.text for text in root.iter("text")].count(evil) == 3
