"""/admin/v1/users: the people whom a provider vouches for."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.errors import BadRequest
from gateway.identity.administration import users
from gateway.identity.administration.forms import UserChange, UserNew, UserQuery
from gateway.identity.administration.views import Deleted, Page, UserShown


async def list_(asked: Asked, query: UserQuery) -> Page[UserShown]:
    """Users in order of id, or those whose name, e-mail address or subject holds a text"""
    return await users.listed(asked.office, query)


async def get(asked: Asked) -> UserShown:
    """One user: role, tenant and groups as they hold now, and why"""
    return await users.shown(asked.office, asked.id)


async def create(asked: Asked, body: UserNew) -> UserShown:
    """Make a user before the first sign-in"""
    known = [issuer.issuer for issuer in asked.door.settings.issuers]
    if body.issuer not in known:
        raise BadRequest(
            f"issuer: expected one of the settings' issuers, spelled alike: {', '.join(known) or '(there are none)'}.",
            param="issuer",
        )
    return await users.create(asked.office, asked.actor, body)


async def change(asked: Asked, body: UserChange) -> UserShown:
    """Set or clear role, tenant and groups; rename; disable, enable"""
    return await users.change(asked.office, asked.actor, asked.id, body)


async def delete(asked: Asked) -> Deleted:
    """Delete a user with all keys, sessions and conversations; to keep somebody out, disable instead"""
    return await users.delete(asked.office, asked.actor, asked.id)


OPERATIONS = (
    Operation("GET", "/admin/v1/users", list_),
    Operation("POST", "/admin/v1/users", create, status=201),
    Operation("GET", "/admin/v1/users/{id}", get),
    Operation("PATCH", "/admin/v1/users/{id}", change),
    Operation("DELETE", "/admin/v1/users/{id}", delete),
)
