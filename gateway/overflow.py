"""A request that leaves the house for want of room inside: written into the audit trail before it goes."""

from __future__ import annotations

from gateway.routing.fleet import Fleet
from gateway.scope import RequestScope
from gateway.store.directory import Directory, actor_of


class Overflow:
    def __init__(self, directory: Directory, fleet: Fleet) -> None:
        self._directory = directory
        self._fleet = fleet

    async def note(self, request: RequestScope, data_class: str) -> None:
        """Nothing for what stays inside, or for a model that there is outside alone. Raises StoreAway."""
        member = self._fleet.members.get(request.backend)
        if member is None or not member.settings.external:
            return
        if all(other.settings.external for other in self._fleet.serving(request.model)):
            return
        details = {
            "request": request.request_id,
            "backend": request.backend,
            "data_class": data_class,
            "reason": request.overflow or "no engine inside takes requests",
        }
        actor = actor_of(request.known(), request.client)
        await self._directory.note(actor, "overflow", request.model, details)
