"""Service accounts: the programs that use the gateway."""

from __future__ import annotations

import hashlib
import re
import time

import msgspec

from gateway.errors import BadRequest
from gateway.identity.administration import keys
from gateway.identity.administration.forms import Paging, ServiceAccountChange, ServiceAccountNew
from gateway.identity.administration.office import Office, page, records
from gateway.identity.administration.users import refuse_locking_out
from gateway.identity.administration.views import Deleted, Page, ServiceAccountShown, of_service_account
from gateway.identity.records import ServiceAccount
from gateway.store.directory import Actor

# What the audit trail calls the command line and the settings, and how the ids of people begin.
_RESERVED = re.compile(r"(cli|bootstrap)$|usr_", re.ASCII)


async def listed(office: Office, query: Paging) -> Page[ServiceAccountShown]:
    found, following = await records(office, ServiceAccount, query.after, query.limit)
    return page([of_service_account(account) for account in found], following)


async def shown(office: Office, account: str) -> ServiceAccountShown:
    return of_service_account(await office.directory.find(ServiceAccount, account))


async def create(office: Office, actor: Actor, form: ServiceAccountNew) -> ServiceAccountShown:
    account_id = form.id or id_from(form.name)
    if _RESERVED.match(account_id):
        raise BadRequest(f"The id {account_id!r} is taken by the gateway itself. Choose another.", param="id")
    about = {"id": account_id, "created": int(time.time()), "created_by": actor.subject}
    account = ServiceAccount(**form.given() | about)
    await office.directory.create(actor, account)
    return of_service_account(account)


async def change(office: Office, actor: Actor, account: str, form: ServiceAccountChange) -> ServiceAccountShown:
    def edit(before: ServiceAccount) -> ServiceAccount:
        after = msgspec.structs.replace(before, **form.given())
        if actor.subject == account and before.role == "admin":
            refuse_locking_out(after.disabled or after.role != "admin")
        return after

    return of_service_account(await office.directory.change(actor, ServiceAccount, account, edit))


async def delete(office: Office, actor: Actor, account: str) -> Deleted:
    """With its keys."""
    refuse_locking_out(actor.subject == account)
    await office.directory.find(ServiceAccount, account)
    owner = f"{ServiceAccount.kind}:{account}"
    await keys.delete_all_of(office, actor, owner)
    await office.directory.delete(actor, ServiceAccount, account)
    # One that was made in between would open again for a later account of this id.
    await keys.delete_all_of(office, actor, owner)
    return Deleted(id=account, object=ServiceAccount.kind)


def id_from(name: str) -> str:
    """The same for the same name; where letters cannot be kept a digest tells names apart."""
    slug = re.sub(r"[^a-z0-9_.]+", "-", name.lower()).strip("-_.")[:50]
    if name.isascii() and slug:
        return slug
    return f"{slug or 'account'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
