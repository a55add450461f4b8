"""/admin/v1/backends: how each engine is, as this gateway and what the others tell it see it, and in what use."""

from __future__ import annotations

import msgspec

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration.forms import BackendChange, BackendNew
from gateway.identity.administration.views import Deleted
from gateway.routing import administration
from gateway.routing.administration import Engines, Trial
from gateway.routing.placing import Placed
from gateway.routing.shown import BackendShown


class Backends(msgspec.Struct, frozen=True):
    """aliases: names that people use, to the models that stand for them now."""

    data: list[BackendShown]
    aliases: dict[str, str]
    object: str = "list"


async def look(asked: Asked) -> Backends:
    """Every engine: its state and why, what it serves, how busy it is, how quick it was lately"""
    return Backends(administration.every(engines_of(asked)), asked.door.fleet.aliases)


async def change(asked: Asked, body: BackendChange) -> BackendShown:
    """Drain, disable or enable an engine, or weigh it otherwise; everywhere within a second"""
    return await administration.change(engines_of(asked), asked.actor, asked.id, body.given())


async def add(asked: Asked, body: BackendNew) -> BackendShown:
    """An engine beside those of the settings; its key is kept encrypted"""
    fields = body.given()
    key = fields.pop("api_key", None)
    return await administration.add(engines_of(asked), asked.actor, fields, key)


async def delete(asked: Asked) -> Deleted:
    """Remove an engine that was added here; what runs there may finish"""
    await administration.remove(engines_of(asked), asked.actor, asked.id)
    return Deleted(id=asked.id, object=Placed.kind)


async def test(asked: Asked) -> Trial:
    """Ask an engine a short question now, and say how long it took or what was wrong"""
    return await administration.attempt(engines_of(asked), asked.actor, asked.id)


def engines_of(asked: Asked) -> Engines:
    return Engines(asked.door.directory, asked.door.placing, asked.door.fleet)


OPERATIONS = (
    Operation("GET", "/admin/v1/backends", look),
    Operation("POST", "/admin/v1/backends", add, status=201),
    Operation("PATCH", "/admin/v1/backends/{id}", change),
    Operation("DELETE", "/admin/v1/backends/{id}", delete),
    Operation("POST", "/admin/v1/backends/{id}/test", test),
)
