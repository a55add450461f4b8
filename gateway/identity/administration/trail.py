"""The audit trail: who changed what, when, from where. Read only; nothing here writes or removes."""

from __future__ import annotations

import msgspec

from gateway.identity.administration.forms import TrailQuery
from gateway.identity.administration.office import Office, page, some_of
from gateway.identity.administration.views import ActorShown, AuditEntry, Page
from gateway.store.directory import Actor
from gateway.store.records import Entry


async def listed(office: Office, query: TrailQuery) -> Page[AuditEntry]:
    """Newest first."""

    async def read(before: str, count: int) -> list[AuditEntry]:
        return [_shown(entry) for entry in await office.directory.trail(before, count)]

    def wanted(entry: AuditEntry) -> bool:
        pairs = ((query.action, entry.action), (query.target, entry.target), (query.actor, entry.actor.subject))
        return all(asked in ("", found) for asked, found in pairs)

    chosen = wanted if query.action or query.target or query.actor else None
    found, following = await some_of(read, lambda entry: entry.id, query.before, query.limit, chosen)
    return page(found, following)


def _shown(entry: Entry) -> AuditEntry:
    line = msgspec.json.decode(entry.data)
    actor = ActorShown(**{name: line.pop(name) for name in Actor._fields})
    return AuditEntry(id=entry.id, actor=actor, **line)
