"""/admin/v1/aliases: names that people use, and the models that stand for them now. All of them: /admin/v1/backends."""

from __future__ import annotations

from typing import Literal

import msgspec

from gateway.api.admin.backends import engines_of
from gateway.api.admin.operation import Asked, Operation
from gateway.errors import BadRequest
from gateway.identity.administration.forms import AliasPut, Name
from gateway.identity.administration.views import Deleted
from gateway.routing import aliases
from gateway.routing.placing import Alias


class AliasShown(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["alias"] = "alias"
    model: str


async def put(asked: Asked, body: AliasPut) -> AliasShown:
    """Let a name stand for a model, everywhere within a second; as the settings say takes an order back"""
    try:
        name = msgspec.convert(asked.id, Name)
    except msgspec.ValidationError:
        raise BadRequest("An alias is 1 to 200 letters that can be shown.", param="id") from None
    await aliases.point(engines_of(asked), asked.actor, name, body.model)
    return AliasShown(id=name, model=body.model)


async def end(asked: Asked) -> Deleted:
    """End an alias, also one of the settings: whoever asks by it is told that there is no such model"""
    await aliases.end(engines_of(asked), asked.actor, asked.id)
    return Deleted(id=asked.id, object=Alias.kind)


OPERATIONS = (
    Operation("PUT", "/admin/v1/aliases/{id}", put),
    Operation("DELETE", "/admin/v1/aliases/{id}", end),
)
