"""/admin/v1/groups: what belonging to a group gives."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import groups
from gateway.identity.administration.forms import GroupPut, Paging
from gateway.identity.administration.views import Deleted, GroupShown, Page


async def list_(asked: Asked, query: Paging) -> Page[GroupShown]:
    """Groups in order of name"""
    return await groups.listed(asked.office, query)


async def get(asked: Asked) -> GroupShown:
    """One group; its id is its name as the provider's claim spells it, percent-encoded"""
    return await groups.shown(asked.office, asked.id)


async def put(asked: Asked, body: GroupPut) -> GroupShown:
    """Make a group, or replace what belonging to it gives"""
    return await groups.put(asked.office, asked.actor, asked.id, body)


async def delete(asked: Asked) -> Deleted:
    """Forget what belonging to a group gives"""
    return await groups.delete(asked.office, asked.actor, asked.id)


OPERATIONS = (
    Operation("GET", "/admin/v1/groups", list_),
    Operation("GET", "/admin/v1/groups/{id}", get),
    Operation("PUT", "/admin/v1/groups/{id}", put),
    Operation("DELETE", "/admin/v1/groups/{id}", delete),
)
