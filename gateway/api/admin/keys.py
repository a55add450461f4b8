"""/admin/v1/keys: API keys of users and service accounts."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import keys
from gateway.identity.administration.forms import KeyChange, KeyNew, KeyQuery, Rotation
from gateway.identity.administration.views import Deleted, KeyMade, KeyShown, Page


async def list_(asked: Asked, query: KeyQuery) -> Page[KeyShown]:
    """Keys in order of id, or those of one owner; never the keys themselves"""
    return await keys.listed(asked.office, query)


async def get(asked: Asked) -> KeyShown:
    """One key's owner, limits and last use"""
    return await keys.shown(asked.office, asked.id)


async def create(asked: Asked, body: KeyNew) -> KeyMade:
    """Make a key; it is shown in this answer and never again"""
    return await keys.create(asked.office, asked.actor, body)


async def change(asked: Asked, body: KeyChange) -> KeyShown:
    """Change a key's name and limits"""
    return await keys.change(asked.office, asked.actor, asked.id, body)


async def rotate(asked: Asked, body: Rotation) -> KeyMade:
    """A new secret under the same id; the old one opens for overlap_seconds more, 0 if it leaked"""
    return await keys.rotate(asked.office, asked.actor, asked.id, body)


async def delete(asked: Asked) -> Deleted:
    """End a key, everywhere within a second"""
    return await keys.delete(asked.office, asked.actor, asked.id)


OPERATIONS = (
    Operation("GET", "/admin/v1/keys", list_),
    Operation("POST", "/admin/v1/keys", create, status=201),
    Operation("GET", "/admin/v1/keys/{id}", get),
    Operation("PATCH", "/admin/v1/keys/{id}", change),
    Operation("DELETE", "/admin/v1/keys/{id}", delete),
    Operation("POST", "/admin/v1/keys/{id}/rotate", rotate),
)
