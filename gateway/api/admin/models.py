"""/admin/v1/models: whether a model takes anybody new."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.queueing import administration
from gateway.queueing.administration import DrainShown


async def drain(asked: Asked) -> DrainShown:
    """Nobody new for a model, everywhere within a second: who waits is refused too, who runs may finish"""
    return await administration.drain(asked.door.store, asked.office.directory, asked.actor, asked.id)


async def undrain(asked: Asked) -> DrainShown:
    """A drained model takes requests again"""
    return await administration.undrain(asked.door.store, asked.office.directory, asked.actor, asked.id)


OPERATIONS = (
    Operation("POST", "/admin/v1/models/{id}/drain", drain),
    Operation("POST", "/admin/v1/models/{id}/undrain", undrain),
)
