"""/admin/v1/service-accounts: the programs that use the gateway."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import service_accounts
from gateway.identity.administration.forms import Paging, ServiceAccountChange, ServiceAccountNew
from gateway.identity.administration.views import Deleted, Page, ServiceAccountShown


async def list_(asked: Asked, query: Paging) -> Page[ServiceAccountShown]:
    """Service accounts in order of id"""
    return await service_accounts.listed(asked.office, query)


async def get(asked: Asked) -> ServiceAccountShown:
    """One service account"""
    return await service_accounts.shown(asked.office, asked.id)


async def create(asked: Asked, body: ServiceAccountNew) -> ServiceAccountShown:
    """Make a service account; without an id one is made of its name"""
    return await service_accounts.create(asked.office, asked.actor, body)


async def change(asked: Asked, body: ServiceAccountChange) -> ServiceAccountShown:
    """Rename, change role, tenant and groups; disable, enable"""
    return await service_accounts.change(asked.office, asked.actor, asked.id, body)


async def delete(asked: Asked) -> Deleted:
    """Delete a service account with all its keys"""
    return await service_accounts.delete(asked.office, asked.actor, asked.id)


OPERATIONS = (
    Operation("GET", "/admin/v1/service-accounts", list_),
    Operation("POST", "/admin/v1/service-accounts", create, status=201),
    Operation("GET", "/admin/v1/service-accounts/{id}", get),
    Operation("PATCH", "/admin/v1/service-accounts/{id}", change),
    Operation("DELETE", "/admin/v1/service-accounts/{id}", delete),
)
