"""/admin/v1/policies: who may use how much, and what that comes to for somebody."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec

from gateway import what_if as replayed
from gateway.api.admin.operation import Asked, Operation
from gateway.errors import BadRequest
from gateway.identity.administration.forms import EffectiveQuery, Form, Paging, WhatIf
from gateway.identity.administration.office import page, records
from gateway.identity.administration.principals import principal_of
from gateway.identity.administration.views import Deleted, Page
from gateway.quotas import administration
from gateway.quotas.administration import EffectiveShown, PolicyShown, shown
from gateway.quotas.policy import Policy
from gateway.what_if import WhatIfShown

_DESCRIBED = msgspec.defstruct(
    "PolicyPut",
    [(it.name, it.type, it.default) for it in msgspec.structs.fields(Policy) if it.name not in ("id", "created")],
    bases=(Form,),
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)


class PolicyPut(Form, frozen=True, kw_only=True):
    """The fields as they came: all that is wrong with them is told at once, not the first alone."""

    described: ClassVar[type[msgspec.Struct]] = _DESCRIBED
    fields: dict[str, Any]

    @classmethod
    def of_json(cls, data: bytes) -> Self:
        try:
            return cls(fields=msgspec.json.decode(data or b"{}", type=dict[str, Any]))
        except msgspec.ValidationError:
            raise BadRequest("Expected an object with the policy's fields.") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(f"The request body is not valid JSON: {error}.", code="invalid_json") from None


class WhatIfPost(WhatIf, frozen=True, kw_only=True):
    described: ClassVar[type[msgspec.Struct]] = msgspec.defstruct(
        "WhatIfPost", [("policy", _DESCRIBED)], bases=(WhatIf,), frozen=True, kw_only=True
    )


async def list_(asked: Asked, query: Paging) -> Page[PolicyShown]:
    """Quota policies in order of name"""
    found, following = await records(asked.office, Policy, query.after, query.limit)
    return page([shown(policy) for policy in found], following)


async def get(asked: Asked) -> PolicyShown:
    """One policy"""
    return shown(await asked.office.directory.find(Policy, asked.id))


async def put(asked: Asked, body: PolicyPut) -> PolicyShown:
    """Make a policy, or replace all that it says; it counts within a second"""
    policy = administration.checked(asked.id, body.fields)
    return shown(await administration.put(asked.office.directory, asked.actor, policy))


async def delete(asked: Asked) -> Deleted:
    """Delete a policy; what it limited is limited by the others alone"""
    await administration.delete(asked.office.directory, asked.actor, asked.id)
    return Deleted(id=asked.id, object=Policy.kind)


async def effective(asked: Asked, query: EffectiveQuery) -> EffectiveShown:
    """Which limits hold for somebody on a model, by which policy and why, and how much of each is left now"""
    who = await principal_of(asked.office, asked.door.people.known, query)
    return await administration.in_effect(asked.door.quotas, who, query.model)


async def what_if(asked: Asked, body: WhatIfPost) -> WhatIfShown:
    """With this policy on these days, who would have been refused, when, and by how much; changes nothing"""
    policy = administration.checked(body.name, body.policy)
    door = asked.door
    return await replayed.what_if(asked.office, door.people, door.store, door.settings, policy, body)


OPERATIONS = (
    Operation("GET", "/admin/v1/policies", list_),
    Operation("GET", "/admin/v1/policies/effective", effective),
    Operation("POST", "/admin/v1/policies/what-if", what_if, role="auditor", as_csv=replayed.as_csv),
    Operation("GET", "/admin/v1/policies/{id}", get),
    Operation("PUT", "/admin/v1/policies/{id}", put),
    Operation("DELETE", "/admin/v1/policies/{id}", delete),
)
