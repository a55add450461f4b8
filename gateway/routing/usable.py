"""Which backends of a model may be asked now, and what part of each. Pure.

Those that take requests are. If there are none:
 1. those that are busy or failing, in full: the breaker never opens on the last backend of a model;
 2. then those that are down: a probe may be wrong, and a try that finds nobody costs little;
 3. never one that is rate-limited, warming or misconfigured: it has said that it would answer nothing. Nor one that is
    drained. Then the earliest time at which that may change is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from gateway.routing.health import Health, State

# Where only a probe can tell.
_LOOK_AGAIN_SECONDS = 5.0


class Usable(NamedTuple):
    """`shares`: backend > part of its capacity that may be used; at least one request at a time, also where it is 0."""

    shares: Mapping[str, float]
    retry_after: float = 0.0  # seconds, where no backend may be asked
    why: str = ""  # for people, where no backend may be asked


def usable(healths: Mapping[str, Health], now: float) -> Usable:
    """Of all backends of one model. Shares are relative to the fullest, so that the last one is never held back."""
    taking = {name: health.share(now) for name, health in healths.items() if health.takes(now)}
    if taking:
        fullest = max(taking.values())
        return Usable({name: share / fullest if fullest else 1.0 for name, share in taking.items()})
    states = {name: health.state(now) for name, health in healths.items()}
    for last_resort in ({State.BUSY, State.FAILING}, {State.DOWN}):
        if names := [name for name, state in states.items() if state in last_resort]:
            return Usable(dict.fromkeys(names, 1.0))
    return _none(healths, now)


def _none(healths: Mapping[str, Health], now: float) -> Usable:
    verdicts = {name: health.verdict(now) for name, health in healths.items()}
    waits = [_LOOK_AGAIN_SECONDS if one.until is None else max(0.0, one.until - now) for one in verdicts.values()]
    why = " ".join(f"{name}: {one.why}" for name, one in verdicts.items())
    return Usable({}, max(1.0, math.ceil(min(waits, default=_LOOK_AGAIN_SECONDS))), why)
