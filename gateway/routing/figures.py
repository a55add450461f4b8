"""Whether an engine's load figures can be believed: that they are read, and agree with the door's own count. Pure."""

from __future__ import annotations

from backends.base import Load

# Looks that may fail or disagree in a row: figures are a moment old, and requests come and go meanwhile.
_LOOKS = 3
# Fewer of ours may be on their way, or done and not yet told.
_MANY = 4


class Figures:
    """Of one engine. `seconds`: between two looks."""

    def __init__(self, seconds: float) -> None:
        self._longest = _LOOKS * seconds
        self.reset()

    def reset(self) -> None:
        """The engine is away: what it says next is new."""
        self._right_at: float | None = None

    def take(self, load: Load | None, held: int, now: float) -> str:
        """Why the figures are stale; empty: they are not. `load`: None where it could not be read. `held`: by the door.

        An engine that has no figures says nothing that could be stale.
        """
        fault = _fault(load, held)
        if not fault or self._right_at is None:
            self._right_at = now
        return fault if now - self._right_at >= self._longest else ""


def _fault(load: Load | None, held: int) -> str:
    if load is None:
        return "Its load figures cannot be read."
    if load.running is not None and load.running + (load.waiting or 0) == 0 and held >= _MANY:
        return f"It says that nothing runs while it has {held} requests of ours."
    return ""
