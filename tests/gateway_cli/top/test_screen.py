"""Figures in, lines out: no line is wider than the terminal, and what names hold stays inert."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gateway.activity.shown import ModelActivity, SubjectActivity
from gateway.cli.top.columns import TABLES, Name, fitting
from gateway.cli.top.rows import Picture, picture
from gateway.cli.top.screen import allotted, lines, whole
from gateway.cli.top.state import State
from tests.gateway_cli.top.seen import HOSTILE, WIDE, engine, request, snapshot

PEOPLE = tuple(
    SubjectActivity(id=f"usr_{n}", name=f"Person {n:02}", completion_tokens_per_second=99.0 - n) for n in range(40)
)


def busy() -> Picture:
    requests = [request(n, f"usr_{n}", "running" if n < 8 else "waiting") for n in range(1, 40)]
    return picture(snapshot(tuple(requests), PEOPLE, failures={"queue_full": 3}))


def screen(seen: Picture, width: int = 80, height: int = 24, fault: str = "", **state: Any) -> list[str]:
    return [text.plain for text in lines(seen, State(**state), width, height, "http://gate", 2.0, fault)]


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 3), (132, 43), (250, 80)], ids=str)
@pytest.mark.parametrize("focus", [table.name for table in TABLES])
@pytest.mark.parametrize(
    "more", [{}, {"help": True}, {"asking": "x"}, {"typing": True, "search": "田中"}], ids=lambda it: "".join(it)
)
def test_the_screen_is_exactly_as_large_as_the_terminal(
    size: tuple[int, int], focus: Name, more: dict[str, Any]
) -> None:
    shown = screen(busy(), *size, focus=focus, **more)
    assert len(shown) == size[1]
    assert {cell_len(one) for one in shown} == {size[0]}


@settings(max_examples=50)
@given(st.text(max_size=40), st.integers(20, 120))
def test_whatever_names_hold_the_lines_keep_their_width_and_hold_no_control(name: str, width: int) -> None:
    seen = picture(
        snapshot(
            (request(1, name, model=name), request(2, "usr_b", "waiting", model=name)),
            (SubjectActivity(id=name, name=name),),
            (engine(why=name, state="down", share=0.0, models=[name]),),
            failures={name: 1},
            models=[ModelActivity(id=name)],
        )
    )
    for shown in (screen(seen, width, fault=name), [text.plain for text in whole(seen, width, name)]):
        assert {cell_len(one) for one in shown} == {width}
        assert all(one.isprintable() for one in shown)


def test_hostile_names_are_seen_as_letters_and_do_nothing() -> None:
    seen = picture(snapshot((request(1, "usr_a", model=HOSTILE),), (SubjectActivity(id="usr_a", name=HOSTILE),)))
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor", width=80)
    for text in lines(seen, State(), 80, 24, HOSTILE, 2.0):
        console.print(text)
    drawn = file.getvalue()
    assert "[red]?[2J?eve??" in drawn
    assert "\x1b[2J" not in drawn
    assert "\u202e" not in drawn


def test_without_colours_everything_is_still_told() -> None:
    file = io.StringIO()
    for text in lines(busy(), State(focus="requests", selected=f"{9:032x}"), 80, 24, "http://gate", 2.0):
        Console(file=file, force_terminal=True, no_color=True, width=80).print(text)
    drawn = file.getvalue()
    assert "\x1b[7m" in drawn  # what is chosen is shown in reverse, which is no colour
    assert not any(f"\x1b[{colour}m" in drawn for colour in range(30, 38))
    assert "Running[|||" in drawn.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_a_small_terminal_shows_what_is_asked_at_ten_oclock() -> None:
    text = "\n".join(screen(busy()))
    for told in (
        "7/8",
        "TTFT 0.30s/1.9s",
        "api 7+32 (39s)",
        "3 queue_full",
        "50% gpu-1",
        "312 tok/s",
        "2 gateways",
        "q quit",
    ):
        assert told in text, text


def test_wide_names_do_not_shift_the_columns() -> None:
    seen = picture(
        snapshot(
            (request(1, "a"), request(2, "b")),
            (SubjectActivity(id="a", name=WIDE), SubjectActivity(id="b", name="Bob")),
        )
    )
    first, second = [row for row in screen(seen, 100) if row.startswith((WIDE[:8], "Bob"))][:2]
    assert cell_len(first.partition("1")[0]) == cell_len(second.partition("1")[0])


def test_the_table_that_keys_are_for_gets_the_most_lines() -> None:
    rows: dict[Name, int] = {"models": 9, "backends": 9, "people": 40, "requests": 90}
    assert allotted(rows, "requests", 17) == {"models": 4, "backends": 4, "requests": 9}
    assert allotted(rows, "models", 40) == {"models": 10, "backends": 10, "people": 16, "requests": 4}
    assert allotted(rows, "people", 3) == {"people": 3}
    assert allotted({"models": 1, "backends": 0, "people": 2, "requests": 0}, "people", 17) == {
        "models": 2,
        "people": 3,
    }


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4), st.integers(2, 80))
def test_no_more_lines_are_given_than_there_are_and_none_to_a_head_alone(rows: list[int], height: int) -> None:
    names: list[Name] = [table.name for table in TABLES]
    given = allotted(dict(zip(names, rows, strict=True)), "people", height)
    assert sum(given.values()) <= height
    assert "people" in given
    assert min(given.values()) >= 2


def test_the_chosen_row_is_on_the_screen_however_far_down_it_is() -> None:
    seen = busy()
    shown = screen(seen, focus="people", selected="usr_39")
    assert any("Person 39" in one for one in shown)
    assert not any("Person 39" in one for one in screen(seen, focus="people"))


def test_the_question_says_whose_request_would_end() -> None:
    assert "End Person 09's request 00000000 (large, waiting)? y/N" in screen(busy(), asking=f"{9:032x}")[-1]
    assert "End request gone?" in screen(busy(), asking="gone")[-1]


def test_a_gateway_that_does_not_answer_is_told_above_the_last_figures() -> None:
    shown = screen(busy(), fault="http://gate does not answer: refused.")
    assert any("does not answer" in one for one in shown)
    assert any("Person 01" in one for one in shown)


def test_of_many_failures_the_most_frequent_are_told_and_how_many_more_there_are() -> None:
    failures = {f"code_{n}": 10 - n for n in range(6)}
    text = "\n".join(screen(picture(snapshot(failures=failures)), 120))
    assert "10 code_0" in text
    assert "7 code_3  and 2 more" in text
    assert "more" not in "\n".join(screen(busy(), 120))


def test_a_pause_and_a_search_are_told() -> None:
    shown = "\n".join(screen(busy(), 100, paused=True, search="Person 01"))
    assert "PAUSED" in shown
    assert "/Person 01" in shown
    assert "Person 02" not in shown


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_heading_has_room_for_itself_and_the_mark_of_the_order(table: Any) -> None:
    for column in table.columns:
        assert column.least > len(column.title), column.title


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_of_a_narrow_terminal_the_columns_that_matter_least_are_left_out(table: Any) -> None:
    for width in range(20, 260):
        columns = fitting(table.columns, width)
        used = sum(size for _, size in columns) + len(columns) - 1
        assert used <= width or len(columns) == 1
    assert [column.title for column, _ in fitting(table.columns, 10)] == [table.columns[0].title]
    assert len(fitting(table.columns, 260)) == len(table.columns)


def test_one_picture_has_all_rows_of_all_tables() -> None:
    text = "\n".join(one.plain for one in whole(busy(), 80, "http://gate"))
    assert text.count("Person") >= 79 - 1
    assert "every" not in text
