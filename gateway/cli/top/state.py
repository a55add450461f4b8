"""What the person at the terminal has chosen, and what a key changes of it. Pure: answers what is left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from gateway.cli.top.columns import TABLES, Column, Name, Table
from gateway.cli.top.rows import Picture, Row

_LONGEST_FILTER = 60
_PAGE = 10


class Order(NamedTuple):
    """`column`: its title. `down`: the largest first."""

    column: str
    down: bool


def _first_orders() -> Mapping[Name, Order]:
    return {table.name: _order(table, table.sort) for table in TABLES}


@dataclass(frozen=True, slots=True)
class State:
    """focus: the table that keys are for. selected: the id of its chosen row, empty until an arrow chooses one; place:
    where that was last. asking: the id of a request whose end is to be confirmed. told: what the last key led to.
    """

    focus: Name = "people"
    orders: Mapping[Name, Order] = field(default_factory=_first_orders)
    search: str = ""
    typing: bool = False
    paused: bool = False
    help: bool = False
    selected: str = ""
    place: int = 0
    asking: str = ""
    told: str = ""


class Do(NamedTuple):
    """What is left to do after a key."""

    what: Literal["quit", "cancel"]
    id: str = ""


Pressed = tuple[State, Do | None]


def table_of(name: Name) -> Table[Any]:
    return next(table for table in TABLES if table.name == name)


def rows_of(state: State, name: Name, picture: Picture) -> list[Row]:
    """As they are shown: those that the search finds, in their order."""
    table = table_of(name)
    wanted = state.search.casefold()
    found = [row for row in table.rows(picture) if wanted in _text(row).casefold()]
    order = state.orders[name]
    value = next(column.value for column in table.columns if column.title == order.column)
    # In two steps: rows that are alike stay where they were, whichever way they are sorted.
    known = [row for row in found if value(row) is not None]
    known.sort(key=lambda row: row.id)
    known.sort(key=lambda row: _comparable(value(row)), reverse=order.down)
    return known + [row for row in found if value(row) is None]


def held(state: State, picture: Picture) -> State:
    """The selection follows its row; where that has gone it stays at its place."""
    ids = [row.id for row in rows_of(state, state.focus, picture)]
    if not ids or not state.selected:
        return replace(state, selected="", place=0)
    place = ids.index(state.selected) if state.selected in ids else min(state.place, len(ids) - 1)
    return replace(state, selected=ids[place], place=place)


def press(state: State, key: str, picture: Picture | None) -> Pressed:
    """The state after a key. `picture`: None until there is one."""
    state = replace(state, told="")
    if state.typing:
        return _type(state, key), None
    if state.asking:
        return _answer(state, key)
    if state.help:
        return (state, Do("quit")) if key == "q" else (replace(state, help=False), None)
    if key == "q":
        return state, Do("quit")
    if key in ("k", "enter") and picture is not None:
        return _act(state, key, picture), None
    if key in _MOVES and picture is not None:
        return _move(state, _MOVES[key], picture), None
    return _choose(state, key), None


_MOVES = {"up": -1, "down": 1, "page-up": -_PAGE, "page-down": _PAGE, "home": -(10**6), "end": 10**6}


def _choose(state: State, key: str) -> State:
    names = [table.name for table in TABLES]
    place = names.index(state.focus)
    if key in ("tab", "back-tab"):
        return _focused(state, names[(place + (1 if key == "tab" else -1)) % len(names)])
    if key.isdecimal() and key.isascii() and 1 <= int(key) <= len(names):
        return _focused(state, names[int(key) - 1])
    if key in ("s", ">", "right", "<", "left"):
        return _sorted(state, -1 if key in ("<", "left") else 1)
    if key == "r":
        order = state.orders[state.focus]
        return _with_order(state, order._replace(down=not order.down))
    if key in ("p", " "):
        return replace(state, paused=not state.paused)
    if key == "/":
        return replace(state, typing=True)
    if key == "escape":
        return replace(state, search="", selected="", place=0)
    return replace(state, help=key in ("?", "h"))


def _focused(state: State, name: Name) -> State:
    return state if name == state.focus else replace(state, focus=name, selected="", place=0)


def _sorted(state: State, step: int) -> State:
    table = table_of(state.focus)
    titles = [column.title for column in table.columns]
    place = (titles.index(state.orders[state.focus].column) + step) % len(titles)
    return _with_order(state, _order(table, titles[place]))


def _with_order(state: State, order: Order) -> State:
    return replace(state, orders={**state.orders, state.focus: order})


def _order(table: Table[Any], title: str) -> Order:
    """Words and places from the smallest, amounts from the largest."""
    column: Column[Any] = next(column for column in table.columns if column.title == title)
    return Order(title, column.right and title not in ("PLACE", "TURN IN"))


def _move(state: State, step: int, picture: Picture) -> State:
    state, is_first = held(state, picture), not state.selected
    ids = [row.id for row in rows_of(state, state.focus, picture)]
    if not ids:
        return state
    place = min(max(0, state.place + step - (is_first and step == 1)), len(ids) - 1)
    return replace(state, selected=ids[place], place=place)


def _act(state: State, key: str, picture: Picture) -> State:
    state = held(state, picture)
    if key == "enter" and state.focus == "people" and state.selected:
        return replace(_focused(state, "requests"), search=state.selected)
    if key == "enter":
        return state
    if state.focus != "requests" or not state.selected:
        return replace(state, told="k ends a request: choose one among the requests (4) with the arrows.")
    return replace(state, asking=state.selected)


def _answer(state: State, key: str) -> Pressed:
    request = state.asking
    state = replace(state, asking="")
    return (state, Do("cancel", request)) if key in ("y", "Y") else (replace(state, told="Nothing was ended."), None)


def _type(state: State, key: str) -> State:
    if key == "enter":
        return replace(state, typing=False)
    if key == "escape":
        return replace(state, typing=False, search="")
    if key == "backspace":
        return replace(state, search=state.search[:-1])
    if len(key) == 1 and len(state.search) < _LONGEST_FILTER:
        return replace(state, search=state.search + key)
    return state


def _text(row: Row) -> str:
    """What a search looks in: all that is written in a row."""
    values: Sequence[Any] = [getattr(row, name) for name in row.__slots__]
    return "\n".join(value for value in values if isinstance(value, str))


def _comparable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
