"""/admin/v1/queue: who runs and who waits in each line; requests ended or moved to another class."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration.forms import QueueChange, QueueQuery
from gateway.identity.administration.views import Deleted
from gateway.queueing import administration
from gateway.queueing.administration import QueueShown, RequestShown


async def look(asked: Asked, query: QueueQuery) -> QueueShown:
    """Who runs and who waits in each line, in order of their places; models that are drained"""
    return await administration.look(asked.door.store, asked.office.directory, query.limit, query.subject)


async def cancel(asked: Asked) -> Deleted:
    """End a request that runs or waits, at whichever gateway; what it used is booked"""
    ended = await administration.cancel(asked.door.store, asked.office.directory, asked.actor, asked.id)
    return Deleted(id=ended.id, object=ended.object)


async def change(asked: Asked, body: QueueChange) -> RequestShown:
    """Let a request that waits do so in another class"""
    store, directory = asked.door.store, asked.office.directory
    return await administration.change_class(store, directory, asked.actor, asked.id, body.klass)


OPERATIONS = (
    Operation("GET", "/admin/v1/queue", look),
    Operation("PATCH", "/admin/v1/queue/{id}", change),
    Operation("DELETE", "/admin/v1/queue/{id}", cancel),
)
