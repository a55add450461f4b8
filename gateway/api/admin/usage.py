"""/admin/v1/usage: what was used, by whom, of what, and what it cost."""

from __future__ import annotations

from functools import partial

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration import members
from gateway.identity.administration.forms import UsageQuery
from gateway.usage import report
from gateway.usage.report import UsageShown
from gateway.usage.sheet import as_csv


async def used(asked: Asked, query: UsageQuery) -> UsageShown:
    """Requests, tokens and cost of some days, by user, service_account, group, model, key or day; as JSON or CSV"""
    return await report.report(
        asked.door.store,
        report.asked(query.by, query.first, query.last, query.limit),
        asked.door.settings.prices,
        partial(members.groups_of, asked.office),
        partial(members.names_of, asked.office),
    )


OPERATIONS = (Operation("GET", "/admin/v1/usage", used, as_csv=as_csv),)
