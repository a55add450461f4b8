"""A request on its way from one backend to another: where it may still go. Knows no queue."""

from __future__ import annotations

import time
from dataclasses import replace

from backends.base import Fields
from gateway.errors import EngineAway
from gateway.routing.fleet import Fleet
from gateway.routing.router import Way, Wish, ways
from gateway.routing.usable import usable


class Journey:
    """`failed`: backends that this request is not sent to again, while there are others."""

    def __init__(self, fleet: Fleet, wish: Wish) -> None:
        self._fleet = fleet
        self.wish = wish
        self.failed: set[str] = set()

    def go_on_with(self, fields: Fields) -> None:
        """It has begun its answer: from here on only where that can be gone on with."""
        self.wish = replace(self.wish, fields=fields, goes_on=True)

    def ways(self) -> list[Way]:
        """At least one, the lowest tier first. Raises as `router.ways`, and EngineAway where nobody may be asked."""
        found = ways(self._fleet, self.wish, self.failed) or ways(self._fleet, self.wish)
        names = [choice.backend for way in found for choice in way.choices]
        now = usable({name: self._fleet.members[name].health for name in names}, time.monotonic())
        if not now.shares:
            raise EngineAway("No engine takes requests for this model now. Try again shortly.", now.retry_after)
        return [way for way in found if any(choice.backend in now.shares for choice in way.choices)]

    def is_possible(self) -> bool:
        """Whether anybody could take it, were all of them well."""
        return bool(ways(self._fleet, self.wish))

    def is_open(self) -> bool:
        """Whether somebody takes it now that has not failed it."""
        now, found = time.monotonic(), ways(self._fleet, self.wish, self.failed)
        return any(self._fleet.members[choice.backend].health.takes(now) for way in found for choice in way.choices)
