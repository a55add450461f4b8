"""Figures in, lines out: the screen of `sekisho top`, no line wider and no more of them than the terminal has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from gateway.cli.top.columns import TABLES, Column, Name, Table, fitting
from gateway.cli.top.formats import fitted, inert
from gateway.cli.top.head import head_lines, line, title
from gateway.cli.top.rows import Picture, Row
from gateway.cli.top.state import Order, State, rows_of

_KEYS = (
    ("?", "help"),
    ("q", "quit"),
    ("Tab", "table"),
    ("s", "sort"),
    ("r", "reverse"),
    ("/", "search"),
    ("p", "pause"),
    ("Enter", "theirs"),
    ("k", "end request"),
)
_HELP = """\

 Running    requests that run, of those that may now
 Waiting    requests that wait, against those that may run
 KV         of the engine whose KV cache is fullest
 Cached     prompt tokens of the last minute that an engine had cached
 OUT/s IN/s tokens a second of the last ten, answers under way too
 TTFT       to the first token, queue included; of the last minute, no batches
 TPOT       per token after it; GOOD: answers that met the gateway's objectives
 FAIL       ended with an error's status in the last minute, as all of a minute
 TODAY      tokens booked since midnight, UTC; TURN IN: an estimate

 Tab 1-4    the table that keys are for     arrows, pages   choose a row
 s, > <     sort by another column          r               the other way round
 /          search in all tables; Enter keeps the search, Esc ends it
 Enter      on a person: their requests
 k          on a request: ends it, after a question; what it used is booked
 p          holds the picture, and goes on
 q          quits

 Any key goes back."""
_MANY_ROWS = 8  # of the table that keys are for, before the others get any
_LEAST_LINES = 3  # a head and one of many rows say nothing
_FEW_ROWS = 3  # of each of the others, before any gets more


def lines(
    picture: Picture, state: State, width: int, height: int, place: str, every: float, fault: str = ""
) -> list[Text]:
    """The whole screen, `height` lines. `place`: where the gateway is. `fault`: why there is no newer picture."""
    if state.help:
        help_lines = [line(width, (text, "")) for text in _HELP.splitlines()]
        return _filled([title(picture.head, place, every, state.paused, width), *help_lines], width, height)
    head = head_lines(picture.head, place, every, state.paused, width)
    if fault:
        head.append(line(width, (f" {inert(fault)} ", "bold white on red")))
    head.append(_tabs(picture, state, width))
    body = _body(picture, state, width, max(0, height - len(head) - 1))
    return [*_filled([*head, *body], width, height - 1), _foot(picture, state, width)]


def whole(picture: Picture, width: int, place: str) -> list[Text]:
    """Everything, one below the other, as many lines as that takes."""
    state = State()
    found = head_lines(picture.head, place, 0.0, False, width)
    for table in TABLES:
        rows = rows_of(state, table.name, picture)
        found += [line(width), *_table(table, rows, state, width, len(rows) + 1)]
    return found


def allotted(rows: Mapping[Name, int], focus: Name, height: int) -> dict[Name, int]:
    """Lines for each table, its head included: some to all that have rows, the most to the one that keys are for."""
    needed = {name: 1 + many for name, many in rows.items() if many or name == focus}
    needed[focus] = max(2, needed[focus])
    given = dict.fromkeys(needed, 0)
    order = sorted(needed, key=lambda name: name != focus)
    for most in (_FEW_ROWS, height):
        for name in order:
            limit = 1 + (max(most, _MANY_ROWS) if name == focus else most)
            left = height - sum(given.values())
            more = min(needed[name], limit, given[name] + left) - given[name]
            if given[name] or name == focus or more >= min(needed[name], _LEAST_LINES):
                given[name] += max(0, more)
    return {name: given[name] for name in rows if given.get(name)}


def _filled(some: Sequence[Text], width: int, height: int) -> list[Text]:
    return [*some[:height], *(line(width) for _ in range(height - len(some)))]


def _tabs(picture: Picture, state: State, width: int) -> Text:
    parts = [(" ", "")]
    for number, table in enumerate(TABLES, 1):
        style = "bold reverse" if table.name == state.focus else ""
        many = f"{len(table.rows(picture))}{'+' if table.name in picture.cut else ''}"
        parts.append((f" {number} {table.name} ({many}) ", style))
    order = state.orders[state.focus]
    parts.append((f"  {order.column}{_mark(order)}", "dim"))
    if state.search:
        parts.append((f"  /{inert(state.search)}", "yellow"))
    return line(width, *parts)


def _body(picture: Picture, state: State, width: int, height: int) -> list[Text]:
    rows = {table.name: rows_of(state, table.name, picture) for table in TABLES}
    room = allotted({name: len(some) for name, some in rows.items()}, state.focus, height)
    found: list[Text] = []
    for table in TABLES:
        if table.name in room:
            found += _table(table, rows[table.name], state, width, room[table.name])
    return found


def _table(table: Table[Any], rows: Sequence[Row], state: State, width: int, height: int) -> list[Text]:
    columns = fitting(table.columns, width)
    has_focus = table.name == state.focus
    order = state.orders[table.name]
    titles = [column.title + (_mark(order) if column.title == order.column else "") for column, _ in columns]
    heads = [(fitted(text, size, right=column.right), "") for text, (column, size) in zip(titles, columns, strict=True)]
    found = [_joined(width, heads, "bold reverse green" if has_focus else "reverse cyan")]
    if not rows:
        return [*found, line(width, (" (none)", "dim"))]
    place = next((place for place, row in enumerate(rows) if has_focus and row.id == state.selected), 0)
    start = max(0, place - (height - 1) + 1)
    for row in rows[start : start + height - 1]:
        found.append(_row(columns, row, width, has_focus and row.id == state.selected))
    return found


def _row(columns: Sequence[tuple[Column[Any], int]], row: Row, width: int, is_chosen: bool) -> Text:
    cells = []
    for column, size in columns:
        value = column.value(row)
        style = "" if is_chosen else column.style(value)
        cells.append((fitted(column.text(value), size, right=column.right), style))
    return _joined(width, cells, "reverse" if is_chosen else "")


def _mark(order: Order) -> str:
    return "▼" if order.down else "▲"


def _joined(width: int, cells: Sequence[tuple[str, str]], style: str) -> Text:
    parts = [part for cell in cells for part in (cell, (" ", ""))]
    text = line(width, *parts[:-1])
    text.stylize_before(style)
    return text


def _foot(picture: Picture, state: State, width: int) -> Text:
    if state.typing:
        return line(width, (f" search: {inert(state.search)}_", "bold"), ("   Enter keeps it, Esc ends it", "dim"))
    if state.asking:
        return line(width, (f" {_question(picture, state.asking)} y/N ", "bold white on red"))
    if state.told:
        return line(width, (f" {inert(state.told)}", "bold"))
    parts = [part for key, what in _KEYS for part in ((f" {key} ", "reverse"), (f"{what} ", ""))]
    return line(width, *parts)


def _question(picture: Picture, request_id: str) -> str:
    row = next((row for row in picture.requests if row.id == request_id), None)
    if row is None:
        return f"End request {inert(request_id)}?"
    return f"End {inert(row.name or row.subject)}'s request {inert(row.id[:8])} ({inert(row.model)}, {row.state})?"
