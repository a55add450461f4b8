"""/admin/v1/sessions: who is signed in with a browser, and ending that."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import sessions
from gateway.identity.administration.forms import Paging
from gateway.identity.administration.views import Deleted, Page, SessionShown, SignedOut
from gateway.identity.records import User


async def list_(asked: Asked, query: Paging) -> Page[SessionShown]:
    """Browser sessions in order of id"""
    return await sessions.listed(asked.office, query)


async def end(asked: Asked) -> Deleted:
    """End a session, everywhere within a second"""
    return await sessions.end(asked.office, asked.actor, asked.id)


async def of_user(asked: Asked) -> Page[SessionShown]:
    """All sessions of a user, oldest first"""
    return await sessions.of_user(asked.office, asked.id)


async def sign_out(asked: Asked) -> SignedOut:
    """End all sessions of a user"""
    await asked.office.directory.find(User, asked.id)
    return await sessions.sign_out(asked.office, asked.actor, asked.id)


OPERATIONS = (
    Operation("GET", "/admin/v1/sessions", list_),
    Operation("DELETE", "/admin/v1/sessions/{id}", end),
    Operation("GET", "/admin/v1/users/{id}/sessions", of_user),
    Operation("DELETE", "/admin/v1/users/{id}/sessions", sign_out),
)
