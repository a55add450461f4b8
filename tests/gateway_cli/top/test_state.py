"""What keys do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.activity.shown import SubjectActivity
from gateway.cli.top.columns import TABLES
from gateway.cli.top.rows import Picture, picture
from gateway.cli.top.state import Do, Order, State, held, press, rows_of
from tests.gateway_cli.top.seen import request, snapshot

SEEN = picture(
    snapshot(
        (request(1), request(2), request(1, "usr_b", "waiting", id="w1"), request(3, "usr_a", "waiting", id="w3")),
        (
            SubjectActivity(id="usr_a", name="Anna", completion_tokens_per_second=2.0),
            SubjectActivity(id="usr_b", name="Бела", completion_tokens_per_second=5.0),
            SubjectActivity(id="app/c", completion_tokens_per_second=2.0),
        ),
    )
)


def after(*keys: str, state: State | None = None, seen: Picture = SEEN) -> State:
    state = state or State()
    for key in keys:
        state, do = press(state, key, seen)
        assert do is None
    return state


def ids(state: State) -> list[str]:
    return [row.id for row in rows_of(state, state.focus, SEEN)]


def test_tables_are_chosen_by_number_and_in_turn() -> None:
    assert after("1").focus == "models"
    assert after("4").focus == "requests"
    assert after("4", "tab").focus == "models"
    assert after("1", "back-tab").focus == "requests"
    assert after("5").focus == "people"


def test_at_first_the_quickest_are_above_and_who_is_alike_stays_in_place() -> None:
    assert ids(State()) == ["usr_b", "app/c", "usr_a"]
    assert ids(after("r")) == ["app/c", "usr_a", "usr_b"]


def test_s_sorts_by_the_next_column_and_a_table_keeps_its_order() -> None:
    columns = [column.title for column in next(table for table in TABLES if table.name == "people").columns]
    place = columns.index("OUT/s")
    assert after("s").orders["people"].column == columns[place + 1]
    assert after("<").orders["people"].column == after("left").orders["people"].column == columns[place - 1]
    state = after("s", "1", "3")
    assert state.orders["people"].column == columns[place + 1]
    assert after(*"s" * len(columns)).orders == State().orders


def test_names_are_sorted_from_a_on_amounts_from_the_largest_and_places_from_the_first() -> None:
    titles = {title: order for state in _every_order() for title, order in [(state.column, state.down)]}
    assert (titles["WHO"], titles["TODAY"], titles["PLACE"], titles["TURN IN"], titles["FOR"]) == (
        False, True, False, False, True,
    )  # fmt: skip


def _every_order() -> list[Order]:
    found = []
    for table in TABLES:
        state = replace(State(), focus=table.name)
        for _ in table.columns:
            state = after("s", state=state)
            found.append(state.orders[table.name])
    return found


@pytest.mark.parametrize("keys", ["", "r"])
def test_what_has_no_value_comes_last_however_it_is_sorted(keys: str) -> None:
    state = after("4", *keys)
    places = [row.place for row in rows_of(state, "requests", SEEN)]  # type: ignore[union-attr]
    assert places == ([3, 1, None, None] if keys else [1, 3, None, None])


def test_a_search_finds_what_stands_in_a_row_whatever_its_case() -> None:
    assert ids(after("/", *"бЕЛ", "enter")) == ["usr_b"]
    state = after("/", *"annax", "backspace")
    assert (state.typing, state.search, ids(state)) == (True, "anna", ["usr_a"])
    assert after("escape", state=state).search == ""
    assert ids(after("enter", "escape", state=state)) == ids(State())
    assert len(after("/", *"x" * 500).search) == 60


def test_keys_are_letters_while_a_search_is_typed() -> None:
    state = after("/", *"qkp?")
    assert (state.search, state.paused, state.help, state.asking) == ("qkp?", False, False, "")


def test_a_selection_begins_at_an_arrow_and_stays_within_the_table() -> None:
    assert State().selected == ""
    assert after("down").selected == "usr_b"
    assert after("down", "down").selected == "app/c"
    assert after("down", "up", "up").selected == "usr_b"
    assert after("end").selected == after("page-down", "page-down").selected == "usr_a"
    assert after("end", "home").selected == "usr_b"
    assert after("down", "escape").selected == ""


def test_the_selection_follows_its_row_and_where_that_is_gone_keeps_its_place() -> None:
    state = after("down", "down")
    assert held(after("r", state=state), SEEN).selected == "app/c"
    fewer = SEEN._replace(people=[row for row in SEEN.people if row.id != "app/c"])
    assert held(state, fewer).selected == "usr_a"
    assert held(state, SEEN._replace(people=[])).selected == ""


def test_a_request_is_ended_only_after_a_yes_and_it_is_the_one_that_was_asked_about() -> None:
    state = after("4", "down", "k")
    assert state.asking == "w1"
    gone = SEEN._replace(requests=SEEN.requests[:2])
    state = held(state, gone)
    _, do = press(state, "y", gone)
    assert do == Do("cancel", "w1")


@pytest.mark.parametrize("key", ["n", "enter", "escape", "q", "k", " "])
def test_any_other_key_than_y_ends_nothing(key: str) -> None:
    state = after("4", "down", "k", key)
    assert (state.asking, state.told) == ("", "Nothing was ended.")


def test_k_needs_a_chosen_request() -> None:
    for keys in ("k", "4k"):
        state = after(*keys)
        assert state.asking == ""
        assert "arrows" in state.told
    assert after("down", "k").asking == ""  # a person is no request


def test_enter_on_a_person_shows_their_requests() -> None:
    state = after("end", "enter")
    assert (state.focus, state.search) == ("requests", "usr_a")
    assert len(ids(state)) == 3
    assert after("enter") == State()


def test_pause_help_and_quit() -> None:
    assert after("p").paused
    assert not after("p", " ").paused
    assert after("?").help
    assert not after("?", "4").help
    assert after("?", "4").focus == "people"
    for keys in ("", "?"):
        assert press(after(*keys), "q", SEEN)[1] == Do("quit")
