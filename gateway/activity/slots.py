"""What happened lately, in slots of two seconds. Pure: knows no clock, no Redis, and of a request only its tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

SLOT_SECONDS = 2.0
_LATELY = 5  # slots
_MINUTE = 30
_KEPT = 150  # five minutes
# Programs name people as they like. Past so many in a slot, and in what is told, the rest counts for models only.
_MOST_SUBJECTS = 500
_MOST_TOLD = 200

# Whoever waits for a first word is there all the same.
_NOTHING_YET = (("completion_tokens", 0),)

# Of which kind of thing (model, backend, subject, code), which one, what was counted.
Figure = tuple[str, str, str]
Amounts = Mapping[Figure, int]


class Whose(NamedTuple):
    subject: str
    model: str
    backend: str = ""  # empty: none has it yet


class Streamed(NamedTuple):
    """Of one request, from its beginning. Its prompt is an estimate until an engine has counted it."""

    prompt_tokens: int = 0
    counted_prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What one gateway tells. rows: a Figure, its amount in the last `seconds` (ten, or fewer where it has just begun)
    and in the last minute. history: prompt and completion tokens a second, of each slot, the oldest first.
    """

    seconds: float
    rows: list[tuple[str, str, str, int, int]]
    history: list[tuple[int, int]]


class _Window:
    """What the last slots come to, kept up slot by slot: no stream waits while all of them are added up."""

    def __init__(self, slots: int) -> None:
        self.sums: dict[Figure, int] = {}
        self._most = slots
        self._slots: deque[Amounts] = deque()
        self._in_slots: dict[Figure, int] = {}  # how many of them have it, if only with 0

    def add(self, slot: Amounts) -> None:
        self._slots.append(slot)
        for figure, amount in slot.items():
            self.sums[figure] = self.sums.get(figure, 0) + amount
            self._in_slots[figure] = self._in_slots.get(figure, 0) + 1
        if len(self._slots) > self._most:
            self._forget(self._slots.popleft())

    def _forget(self, slot: Amounts) -> None:
        for figure, amount in slot.items():
            self.sums[figure] -= amount
            self._in_slots[figure] -= 1
            if not self._in_slots[figure]:
                del self.sums[figure], self._in_slots[figure]


class Recorder:
    """Written in the event loop only."""

    def __init__(self) -> None:
        self._lately = _Window(_LATELY)
        self._minute = _Window(_MINUTE)
        self._seconds: deque[float] = deque(maxlen=_LATELY)
        self._history: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._amounts: dict[Figure, int] = {}
        self._subjects: set[str] = set()
        self._streamed: dict[str, Streamed] = {}
        self._totals: Amounts = {}

    def streamed(self, request_id: str, whose: Whose, so_far: Streamed) -> None:
        """Counts what is new since this was last told of the request. An estimate that was too high is let stand."""
        before = self._streamed.get(request_id, Streamed())
        self._streamed[request_id] = Streamed(*map(max, before, so_far))
        gained = [
            (what, new - old) for what, old, new in zip(Streamed._fields, before, so_far, strict=True) if new > old
        ]
        for kind, name in (("subject", whose.subject), ("model", whose.model), ("backend", whose.backend)):
            if name and (kind != "subject" or self._has_room_for(name)):
                for what, amount in gained or _NOTHING_YET:
                    self._add((kind, name, what), amount)

    def ended(self, request_id: str) -> None:
        self._streamed.pop(request_id, None)

    def close(self, seconds: float, own: Amounts, others: Amounts) -> None:
        """End the slot. `own`: totals that began at 0 with this process; `others`: of those that began before it."""
        for figure, total in own.items():
            if grown := _grown(self._totals.get(figure, 0), total):
                self._add(figure, grown)
        for figure, total in others.items():
            self._add(figure, _grown(self._totals.get(figure, total), total))
        self._totals = {**own, **others}
        sums = (self._sum("prompt_tokens"), self._sum("completion_tokens"))
        self._history.append((round(sums[0] / seconds), round(sums[1] / seconds)))
        self._seconds.append(seconds)
        for window in (self._lately, self._minute):
            window.add(self._amounts)
        self._amounts, self._subjects = {}, set()

    def told(self) -> Told:
        lately, minute = self._lately.sums, self._minute.sums
        kept = _busiest(minute)
        rows = [(*figure, lately.get(figure, 0), amount) for figure, amount in minute.items() if _is_told(figure, kept)]
        return Told(sum(self._seconds), rows, list(self._history))

    def _has_room_for(self, subject: str) -> bool:
        if len(self._subjects) < _MOST_SUBJECTS:
            self._subjects.add(subject)
        return subject in self._subjects

    def _add(self, figure: Figure, amount: int) -> None:
        self._amounts[figure] = self._amounts.get(figure, 0) + amount

    def _sum(self, what: str) -> int:
        return sum(amount for (kind, _, of), amount in self._amounts.items() if kind == "model" and of == what)


def _grown(before: int, now: int) -> int:
    """What is less than before began anew."""
    return now - before if now >= before else now


def _busiest(amounts: Amounts) -> frozenset[str]:
    """Subjects, those with the most tokens."""
    tokens: dict[str, int] = {}
    for (kind, name, _), amount in amounts.items():
        if kind == "subject":
            tokens[name] = tokens.get(name, 0) + amount
    return frozenset(sorted(tokens, key=lambda name: (-tokens[name], name))[:_MOST_TOLD])


def _is_told(figure: Figure, subjects: frozenset[str]) -> bool:
    return figure[0] != "subject" or figure[1] in subjects
