"""/admin/v1/audit: who changed what. Nothing here can change it."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import trail
from gateway.identity.administration.forms import TrailQuery
from gateway.identity.administration.views import AuditEntry, Page


async def list_(asked: Asked, query: TrailQuery) -> Page[AuditEntry]:
    """Administrative changes, newest first"""
    return await trail.listed(asked.office, query)


OPERATIONS = (Operation("GET", "/admin/v1/audit", list_),)
