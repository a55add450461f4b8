"""Days and months in a time zone: where they end, and what they are called. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

# How far this machine's clock may be from the server's. Less than half a day: the shortest day of a year has 23 hours.
_SKEW_SECONDS = 11 * 3600


class Span(NamedTuple):
    """Of a day or month: its name, and its end in Unix milliseconds."""

    name: str
    end_ms: int


def spans(kind: Literal["day", "month"], zone: tzinfo, now_ms: int) -> tuple[Span, Span]:
    """Two in a row, one of which holds the server's now: it says which, by its own clock."""
    earliest = datetime.fromtimestamp(now_ms / 1000 - _SKEW_SECONDS, zone)
    start = _start(kind, earliest)
    middle, end = _next(kind, start), _next(kind, _next(kind, start))
    return Span(_name(kind, start), _ms(middle)), Span(_name(kind, middle), _ms(end))


def _start(kind: str, at: datetime) -> datetime:
    day = at.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return day if kind == "day" else day.replace(day=1)


def _next(kind: str, start: datetime) -> datetime:
    # By the calendar, not by 24 hours: some days are shorter.
    if kind == "day":
        return start + timedelta(days=1)
    return (start + timedelta(days=32)).replace(day=1)


def _name(kind: str, start: datetime) -> str:
    return start.strftime("%Y%m%d" if kind == "day" else "%Y%m")


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
