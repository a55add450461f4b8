"""How one backend is, from what probes see and requests meet, and how much of it may be used. Pure: time is told.

healthy        takes requests; after a recovery only a growing share of what it can (slow start)
busy           it just said that it is full: left alone for a moment, which is no failure
rate_limited   it said when to come back
failing        its circuit breaker is open, or on trial with one request at a time
warming        it is there; its model is not loaded yet
misconfigured  it refuses our credential
down           it cannot be reached
drained        an administrator wants nobody new there
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from backends.base import Readiness
from backends.errors import BackendError, Rejected, Unreachable
from gateway.routing.breaker import Breaker
from gateway.routing.mending import is_busy, wanted_pause

_BUSY_SECONDS = 1.0
# After a refused credential: until somebody may have mended it.
_MISCONFIGURED_SECONDS = 30.0
# A busy engine may miss a probe.
_MISSES = 2

_FIRST_SHARE = 0.1
_SLOW_START_SECONDS = 30.0

# How much slower than usual lately: a running mean of what each first token took, by what it was expected to take.
_MOST_SLOWNESS = 4.0
_NEWEST_WEIGHT = 0.2
_SLOWNESS_HALF_LIFE = 30.0


class State(Enum):
    HEALTHY = "healthy"
    BUSY = "busy"
    RATE_LIMITED = "rate_limited"
    FAILING = "failing"
    WARMING = "warming"
    MISCONFIGURED = "misconfigured"
    DOWN = "down"
    DRAINED = "drained"


_FROM_PROBE = {
    Readiness.WARMING: (State.WARMING, "Its model is still loading."),
    Readiness.MISCONFIGURED: (State.MISCONFIGURED, "It refuses our credential."),
    Readiness.DOWN: (State.DOWN, "It does not answer."),
}


class Verdict(NamedTuple):
    """A state as told to people and to other gateways."""

    state: State
    why: str = ""  # for people; empty while it is healthy
    at: float = -math.inf  # when that was seen; of a healthy one: when it recovered last
    until: float | None = None  # when it may be tried again; None: when a probe says so, or now


@dataclass(slots=True)
class Health:
    """Of one backend as this gateway knows it. Times are seconds of one clock that never goes back."""

    drained: bool = False
    _absence: Verdict | None = field(default_factory=lambda: Verdict(State.DOWN, "Nobody has looked at it yet."))
    _pause: Verdict | None = None
    _breaker: Breaker = field(default_factory=Breaker)
    _is_first_hand: bool = True  # the absence: seen here too
    _misses: int = 0
    _was_seen: bool = False
    _ready_at: float = -math.inf
    _recovered_at: float = -math.inf
    _succeeded_at: float = -math.inf
    _heard_at: float = -math.inf
    _slowness: float = 1.0
    _slowness_at: float = 0.0

    def observe_probe(self, readiness: Readiness, now: float) -> None:
        """What a look at it found."""
        seen, self._was_seen = self._was_seen, True
        if readiness is Readiness.READY:
            self._misses = 0
            self._ready_at = now
            if self._absence is not None and seen and self._is_first_hand:
                self._recovered_at = now
            self._absence = None
            return
        self._misses += 1
        if readiness is Readiness.DOWN and self._absence is None and self._misses < _MISSES:
            return
        state, why = _FROM_PROBE[readiness]
        if self._absence is None or self._absence.state is not state or not seen:
            self._absence = Verdict(state, why, now)
        self._is_first_hand = True

    def observe_first_token(self, now: float, seconds: float, expected: float) -> None:
        """A request got its first token after so many seconds, where so many were expected."""
        self._succeeded_at = now
        self._misses = 0
        self._breaker.succeeded(now)
        if self._pause is not None and self._pause.state is not State.RATE_LIMITED:
            self._pause = None
        ratio = min(max(seconds / expected, 1.0), _MOST_SLOWNESS) if expected > 0 else 1.0
        self._slowness = self.slowness(now) * (1 - _NEWEST_WEIGHT) + ratio * _NEWEST_WEIGHT
        self._slowness_at = now

    def observe_failure(self, error: BackendError, request_id: str, now: float) -> None:
        """How an attempt ended, before its first token or after. What is the client's fault changes nothing."""
        if isinstance(error, Unreachable):
            self._absence = self._absence or Verdict(State.DOWN, "It could not be reached.", now)
            self._is_first_hand = True
        elif not isinstance(error, Rejected):
            self._breaker.failed(now)
        elif error.status in (401, 403):
            self._pause = Verdict(
                State.MISCONFIGURED, f"It refused our credential ({error.status}).", now, now + _MISCONFIGURED_SECONDS
            )
        elif is_busy(error):
            self._be_patient(error, now)
        elif error.status >= 500:
            self._breaker.refused(now, request_id)

    def _be_patient(self, error: Rejected, now: float) -> None:
        seconds = wanted_pause(error.retry_after)
        if seconds is not None:
            until = max(now + seconds, self._paused_until(State.RATE_LIMITED))
            self._pause = Verdict(State.RATE_LIMITED, f"It asked us to wait ({error.status}).", now, until)
        elif self._paused_until(State.RATE_LIMITED) <= now:
            self._pause = Verdict(State.BUSY, f"It says it is full ({error.status}).", now, now + _BUSY_SECONDS)

    def _paused_until(self, state: State) -> float:
        return (self._pause.until or 0.0) if self._pause is not None and self._pause.state is state else -math.inf

    def hear(self, verdict: Verdict) -> None:
        """What another gateway saw, unless newer is known here. Good news closes the breaker, and no more than that."""
        if verdict.at <= self._heard_at:
            return
        self._heard_at = verdict.at
        if verdict.state is State.HEALTHY:
            if not self._breaker.is_closed and verdict.at > self._breaker.opened_at:
                self._breaker.close(verdict.at)
        elif verdict.at <= self._succeeded_at:
            return
        elif verdict.state is State.FAILING:
            self._breaker.open_as_told(verdict.at, verdict.until or verdict.at, verdict.why)
        elif verdict.until is not None:
            self._pause = max((verdict, self._pause or verdict), key=lambda pause: pause.until or 0.0)
        elif self._absence is None and verdict.at > self._ready_at:
            self._absence = verdict
            self._is_first_hand = False

    def verdict(self, now: float) -> Verdict:
        """How it is, and why."""
        return Verdict(State.DRAINED, "An administrator has drained it.") if self.drained else self.seen(now)

    def seen(self, now: float) -> Verdict:
        """The same, whatever is ordered."""
        if self._absence is not None:
            return self._absence
        if self._pause is not None and now < (self._pause.until or 0.0):
            return self._pause
        breaker = self._breaker
        if breaker.is_closed:
            return Verdict(State.HEALTHY, at=self._healthy_since())
        return Verdict(State.FAILING, breaker.why, breaker.opened_at, breaker.until)

    def state(self, now: float) -> State:
        return self.verdict(now).state

    def takes(self, now: float) -> bool:
        """Whether it may be asked where there are others too."""
        state = self.state(now)
        return state is State.HEALTHY or (state is State.FAILING and self._breaker.on_trial(now))

    def share(self, now: float) -> float:
        """The part of its capacity that may be used. 0: none, or on trial, where it is one request at a time."""
        if self.state(now) is not State.HEALTHY:
            return 0.0
        grown = (now - self._healthy_since()) / _SLOW_START_SECONDS
        return min(1.0, _FIRST_SHARE + (1 - _FIRST_SHARE) * max(0.0, grown))

    def slowness(self, now: float) -> float:
        """How many times slower than expected first tokens came lately, 1 to 4; without news it fades to 1."""
        faded: float = 0.5 ** (max(0.0, now - self._slowness_at) / _SLOWNESS_HALF_LIFE)
        return 1.0 + (self._slowness - 1.0) * faded

    def _healthy_since(self) -> float:
        return max(self._recovered_at, self._breaker.closed_at)
