"""A circuit breaker: after failures a backend is left alone for a growing while, then tried with few. Pure.

closed  --failures-->  open  --cool-down-->  on trial  --successes-->  closed, with its share growing
                         ^-------failure--------'
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

_FAILURES_IN_A_ROW = 3
# An engine answers 500 to mistakes of its clients: only so many, of different requests and nothing else between, count.
_REFUSALS_IN_A_ROW = 5
# Or so large a part of the last attempts.
_WINDOW_SECONDS = 30.0
_WINDOW = 40
_FEWEST = 10
_FAILED_PART = 0.5

_FIRST_COOL_DOWN = 1.0
_LONGEST_COOL_DOWN = 60.0
# Closed for so long, the next cool-down is a first one again.
_FORGIVEN_SECONDS = 120.0
_TRIALS = 2


@dataclass(slots=True)
class Breaker:
    """Times are seconds of any clock that never goes back, each not before the one told last."""

    opened_at: float = -math.inf
    closed_at: float = -math.inf
    until: float = -math.inf  # no trial before this
    is_closed: bool = True
    why: str = ""
    _cool_down: float = 0.0
    _in_a_row: int = 0
    _refused: set[str] = field(default_factory=set)
    _trials: int = 0  # that went well
    _window: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def on_trial(self, now: float) -> bool:
        return not self.is_closed and now >= self.until

    def succeeded(self, now: float) -> None:
        self._in_a_row = 0
        self._refused.clear()
        if self.is_closed:
            self._window.append((now, True))
        elif self.on_trial(now):
            self._trials += 1
            if self._trials >= _TRIALS:
                self.close(now)

    def failed(self, now: float) -> None:
        """No answer, or half of one."""
        self._in_a_row += 1
        self._window.append((now, False))
        if self.on_trial(now):
            self._open(now, "A trial failed.")
        elif self.is_closed and self._in_a_row >= _FAILURES_IN_A_ROW:
            self._open(now, f"{self._in_a_row} requests in a row failed.")
        elif self.is_closed and self._failed_part(now) >= _FAILED_PART:
            self._open(now, "Half of the latest requests failed.")

    def refused(self, now: float, request_id: str) -> None:
        """It answered with an error of its own, which may be the request's fault."""
        self._refused.add(request_id)
        if len(self._refused) >= _REFUSALS_IN_A_ROW and (self.is_closed or self.on_trial(now)):
            self._open(now, f"{_REFUSALS_IN_A_ROW} requests in a row were answered with an error.")

    def open_as_told(self, at: float, until: float, why: str) -> None:
        """Somebody else's broke at `at`."""
        if self.is_closed:
            self._open(at, why)
            self.until = until

    def close(self, at: float) -> None:
        self.is_closed = True
        self.closed_at = at
        self._in_a_row = 0
        self._refused.clear()
        self._window.clear()

    def _open(self, now: float, why: str) -> None:
        forgiven = self.is_closed and now - self.closed_at > _FORGIVEN_SECONDS
        longer = min(self._cool_down * 2, _LONGEST_COOL_DOWN)
        self._cool_down = _FIRST_COOL_DOWN if forgiven else max(longer, _FIRST_COOL_DOWN)
        self.is_closed = False
        self.opened_at = now
        self.until = now + self._cool_down
        self.why = why
        self._trials = 0
        self._refused.clear()

    def _failed_part(self, now: float) -> float:
        lately = [well for at, well in self._window if now - at <= _WINDOW_SECONDS]
        return lately.count(False) / len(lately) if len(lately) >= _FEWEST else 0.0
