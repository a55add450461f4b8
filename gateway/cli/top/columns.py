"""The four tables: their columns, what each shows, and which are left out first where the terminal is narrow. Data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from gateway.cli.top.formats import count, inert, seconds, share
from gateway.cli.top.rows import BackendRow, ModelRow, PersonRow, Picture, RequestRow, Row

R = TypeVar("R", bound=Row)
# Told in a colour: seconds to a first token and between two, the share of a KV cache in use, that of good answers.
LATE, SLOW, FULL, UNMET = 2.0, 0.05, 0.9, 0.95

Name = Literal["models", "backends", "people", "requests"]


def _none(value: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """`least`, `most`: cells, the second where there is room. `rank`: those with the highest are left out first.

    `value` is what is sorted by, None last; `text` how it is shown; `style` a colour that it deserves.
    """

    title: str
    least: int
    value: Callable[[R], Any]
    text: Callable[[Any], str] = str
    rank: int = 0
    most: int = 0
    style: Callable[[Any], str] = _none

    @property
    def right(self) -> bool:
        """Figures stand right, words left."""
        return self.text is not inert


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """`sort`: the column that it is sorted by at first."""

    name: Name
    columns: Sequence[Column[R]]
    sort: str
    rows: Callable[[Picture], Sequence[R]]


def _late(value: float | None) -> str:
    return "yellow" if value is not None and value > LATE else ""


def _slow(value: float | None) -> str:
    return "yellow" if value is not None and value > SLOW else ""


def _full(value: float | None) -> str:
    return "red" if value is not None and value >= FULL else ""


def _bad(value: float | None) -> str:
    return "red" if value else ""


def _waits(value: int | None) -> str:
    return "yellow" if value else ""


def _state(value: str) -> str:
    return {"healthy": "green", "busy": "yellow", "warming": "yellow", "rate_limited": "yellow"}.get(value, "red")


def _unmet(value: float | None) -> str:
    return "yellow" if value is not None and value < UNMET else ""


MODELS: Table[ModelRow] = Table(
    "models",
    (
        Column("MODEL", 14, lambda row: row.id + (" (draining)" if row.draining else ""), inert, most=44),
        Column("RUN", 4, lambda row: row.running, count),
        Column("WAIT", 5, lambda row: row.waiting, count, style=_waits),
        Column("LONGEST", 8, lambda row: row.longest, seconds, rank=3),
        Column("OUT/s", 6, lambda row: row.out_speed, count),
        Column("IN/s", 6, lambda row: row.in_speed, count, rank=2),
        Column("TTFT50", 7, lambda row: row.ttft_p50, seconds, rank=1),
        Column("TTFT95", 7, lambda row: row.ttft_p95, seconds, style=_late),
        Column("TPOT95", 7, lambda row: row.tpot_p95, seconds, rank=1, style=_slow),
        Column("REQ/m", 6, lambda row: row.requests, count, rank=2),
        Column("FAIL", 5, lambda row: row.failed, count, style=_bad),
        Column("GOOD", 5, lambda row: row.goodput, share, rank=4, style=_unmet),
    ),
    "OUT/s",
    lambda picture: picture.models,
)

BACKENDS: Table[BackendRow] = Table(
    "backends",
    (
        Column("BACKEND", 14, lambda row: row.id, inert, most=30),
        Column("STATE", 12, lambda row: row.state, inert, style=_state),
        Column("RUN", 4, lambda row: row.running, count),
        Column("OF", 4, lambda row: row.capacity, count),
        Column("WAIT", 5, lambda row: row.waiting, count, rank=1, style=_waits),
        Column("KV", 4, lambda row: row.kv, share, style=_full),
        Column("OUT/s", 6, lambda row: row.out_speed, count),
        Column("IN/s", 6, lambda row: row.in_speed, count, rank=1),
        Column("PREEMPT", 8, lambda row: row.preemptions, count, rank=2, style=_bad),
        Column("SLOWER", 7, lambda row: row.slowness, lambda value: f"x{value:.1f}", rank=3),
        Column("MODELS", 20, lambda row: row.models, inert, rank=5, most=50),
        Column("WHY", 30, lambda row: row.why, inert, rank=6, most=120),
    ),
    "BACKEND",
    lambda picture: picture.backends,
)

PEOPLE: Table[PersonRow] = Table(
    "people",
    (
        Column("WHO", 16, lambda row: row.name or row.id, inert, most=44),
        Column("RUN", 4, lambda row: row.running, count),
        Column("WAIT", 5, lambda row: row.waiting, count, style=_waits),
        Column("LONGEST", 8, lambda row: row.longest, seconds, rank=1),
        Column("OUT/s", 6, lambda row: row.out_speed, count),
        Column("IN/s", 6, lambda row: row.in_speed, count, rank=1),
        Column("TOK/m", 6, lambda row: row.minute, count),
        Column("TODAY", 6, lambda row: row.today, count),
        Column("ID", 26, lambda row: row.id, inert, rank=2, most=60),
    ),
    "OUT/s",
    lambda picture: picture.people,
)

REQUESTS: Table[RequestRow] = Table(
    "requests",
    (
        Column("WHO", 14, lambda row: row.name or row.subject, inert, most=44),
        Column("CLASS", 11, lambda row: row.klass, inert),
        Column("STATE", 8, lambda row: row.state, inert, style=lambda value: "yellow" if value == "waiting" else ""),
        Column("PLACE", 6, lambda row: row.place, count),
        Column("TURN IN", 8, lambda row: row.eta, seconds, rank=1),
        Column("FOR", 6, lambda row: row.age, seconds),
        Column("MODEL", 12, lambda row: row.model, inert, most=30),
        Column("BACKEND", 10, lambda row: row.backend, inert, rank=2),
        Column("LINE", 12, lambda row: row.line, inert, rank=5),
        Column("TOKENS", 7, lambda row: row.tokens, count, rank=3),
        Column("ID", 32, lambda row: row.id, inert, rank=4),
    ),
    "PLACE",
    lambda picture: picture.requests,
)

TABLES: tuple[Table[Any], ...] = (MODELS, BACKENDS, PEOPLE, REQUESTS)


def fitting(columns: Sequence[Column[R]], width: int) -> list[tuple[Column[R], int]]:
    """Those that a line of `width` has room for, each with its cells; one cell between two."""
    kept = list(columns)
    while len(kept) > 1 and _needed(kept) > width:
        highest = max(column.rank for column in kept)
        # Of those that matter least the last one goes first; where all matter the line is cut.
        kept.pop(max(place for place, column in enumerate(kept) if column.rank == highest))
    return _spread(kept, max(0, width - _needed(kept)))


def _spread(columns: Sequence[Column[R]], rest: int) -> list[tuple[Column[R], int]]:
    """What is left over, to those that can use it, the first ones first."""
    found = []
    for column in columns:
        more = min(rest, max(0, column.most - column.least))
        rest -= more
        found.append((column, column.least + more))
    return found


def _needed(columns: Sequence[Column[R]]) -> int:
    return sum(column.least for column in columns) + len(columns) - 1
