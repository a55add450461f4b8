"""/admin/v1/backends: how each engine is, as this gateway and what the others tell it see it."""

from __future__ import annotations

import msgspec

from gateway.api.admin.operation import Asked, Operation
from gateway.routing.shown import BackendShown


class Backends(msgspec.Struct, frozen=True):
    """aliases: names that people use, to the models that stand for them now."""

    data: list[BackendShown]
    aliases: dict[str, str]
    object: str = "list"


async def look(asked: Asked) -> Backends:
    """Every engine: its state and why, what it serves, how busy it is, how quick it was lately"""
    return Backends(asked.door.fleet.shown(), asked.door.fleet.aliases)


OPERATIONS = (Operation("GET", "/admin/v1/backends", look),)
