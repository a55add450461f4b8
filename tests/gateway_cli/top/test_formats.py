"""Figures and names in few cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gateway.cli.top.formats import count, fitted, inert, seconds, share, sparkline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.42, "0.4"),
        (7.96, "8.0"),
        (9.97, "10"),
        (999, "999"),
        (999.7, "1.0k"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (999_960, "1.0M"),
        (7_200_000_000, "7.2G"),
    ],
)
def test_a_count_has_a_unit_where_it_is_long(value: float | None, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0ms"),
        (0, "0s"),
        (7, "7s"),
        (0.024, "24ms"),
        (0.0996, "0.10s"),
        (0.996, "1.0s"),
        (9.96, "10s"),
        (99.4, "99s"),
        (99.6, "1m40"),
        (5999, "99m59"),
        (6000, "1h40"),
    ],
)
def test_a_time_has_the_unit_that_it_is_thought_of_in(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_a_share_that_is_more_than_nothing_is_seen() -> None:
    assert [share(value) for value in (None, 0.0, 0.001, 0.5, 1.0)] == ["-", "0%", "<1%", "50%", "100%"]


@given(st.floats(0, 1e12))
def test_a_count_takes_six_cells_at_most(value: float) -> None:
    assert len(count(value)) <= 6


@given(st.text(), st.integers(0, 30), st.booleans())
def test_whatever_a_name_holds_it_is_as_wide_as_its_column(text: str, width: int, right: bool) -> None:
    shown = fitted(inert(text), width, right=right)
    assert cell_len(shown) == width
    assert shown.isprintable()


def test_wide_letters_take_two_cells_and_what_is_cut_is_told() -> None:
    assert fitted("田中", 6) == "田中  "
    assert fitted("田中一郎", 6) == "田中 …"
    assert fitted("12", 5, right=True) == "   12"


def test_what_would_move_the_cursor_or_turn_the_writing_is_inert() -> None:
    assert inert("a\x1b[2Jb\u202ec\n") == "a?[2Jb?c?"


def test_a_curve_ends_with_the_newest_and_its_tallest_is_the_most() -> None:
    assert sparkline([0, 4, 8], 5) == "   ▄█"[:2] + " ▄█"
    assert sparkline([0, 0], 4) == "    "
    assert sparkline([], 3) == "   "
    assert sparkline([1], 0) == ""


def test_a_curve_that_is_longer_than_its_room_is_drawn_by_its_means() -> None:
    assert sparkline([8, 0, 8, 8], 2) == "▄█"
    assert sparkline([1000, 1, 1], 3)[1:] == "▁▁"


@given(st.lists(st.integers(0, 10**6), max_size=150), st.integers(0, 90))
def test_a_curve_is_as_wide_as_its_room(values: list[int], width: int) -> None:
    assert len(sparkline(values, width)) == width
