"""Policies and their effect at the terminal: the rows of the tables, and the state of limits without a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.table import Column, Table

from gateway.cli.console import note, out
from gateway.cli.office import cell, show_json
from gateway.quotas.policy import LIMITS, Policy

if TYPE_CHECKING:
    from gateway.identity.administration.forms import EffectiveQuery
    from gateway.identity.administration.office import Office
    from gateway.identity.people import People
    from gateway.quotas.administration import EffectiveShown
    from gateway.settings import Settings
    from gateway.store.redis import Store
    from gateway.what_if import WhatIfShown

_COLUMNS = ("limit", "value", "left", "policy", "because of", "counted for")
_REFUSED = ("day", "whom", "limit", "value", "used", "over", "requests refused")


class Row(msgspec.Struct, frozen=True):
    id: str
    applies_to: tuple[str, ...]
    models: tuple[str, ...]
    limits: tuple[str, ...]
    shadow: bool

    @staticmethod
    def of(policy: Policy) -> Row:
        values = ((name, getattr(policy, name)) for name in LIMITS)
        limits = tuple(f"{name}: {_spoken(value)}" for name, value in values if value is not None)
        return Row(policy.id, policy.applies_to, policy.models, limits, policy.shadow)


async def in_effect(office: Office, store: Store, settings: Settings, query: EffectiveQuery) -> EffectiveShown:
    from gateway.identity.administration.principals import principal_of
    from gateway.quotas import administration
    from gateway.quotas.book import PolicyBook
    from gateway.quotas.service import QuotaService
    from gateway.store.records import Records

    book = PolicyBook(Records(store), 0)
    quotas = QuotaService(store, book, settings.prices, settings.quota_time_zone, settings.lease_seconds)
    who = await principal_of(office, people_of(office, settings).known, query)
    return await administration.in_effect(quotas, who, query.model)


def people_of(office: Office, settings: Settings) -> People:
    from gateway.identity.group_book import GroupBook
    from gateway.identity.people import People
    from gateway.store.lookup import Lookup

    directory = office.directory
    # Longer than a command runs.
    return People(directory, Lookup(directory, 0), GroupBook(directory, 3600), settings.issuers)


def show_effective(found: EffectiveShown, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    table = Table(*(Column(column, overflow="fold") for column in _COLUMNS))
    for limit in found.limits:
        policy = f"{limit.policy} (in shadow)" if limit.shadow else limit.policy
        row = (limit.limit, _spoken(limit.value), limit.left, policy, limit.why, limit.whom)
        table.add_row(*(cell("", value) for value in row))
    out.print(table)
    if not found.limits:
        note("No policy limits them on this model.")


def show_what_if(found: WhatIfShown, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    if found.data:
        out.print(_refusals(found))
    else:
        note(f"From {found.first} to {found.last} it would have refused nobody, as far as the ledger tells.")
    if found.has_more:
        note("There are more; --limit shows more of them.")
    for one in found.not_known:
        note(f"{one.limit}: not known. {one.reason}")
    for sentence in found.notes:
        note(sentence)


def _refusals(found: WhatIfShown) -> Table:
    table = Table(*(Column(column, overflow="fold") for column in _REFUSED))
    for row in found.data:
        whom = "\n".join(filter(None, (row.name, row.whom)))
        values = (row.day, whom, row.limit, _spoken(row.value), row.used, row.over, f"{row.refused} of {row.requests}")
        table.add_row(*(cell("", value) for value in values))
    return table


def _spoken(value: object) -> str:
    return (", ".join(map(str, value)) or "(none)") if isinstance(value, tuple) else str(value)
