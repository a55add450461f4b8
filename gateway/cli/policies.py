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
    from gateway.quotas.administration import EffectiveShown
    from gateway.settings import Settings
    from gateway.store.redis import Store

_COLUMNS = ("limit", "value", "left", "policy", "because of", "counted for")


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
    from gateway.identity.group_book import GroupBook
    from gateway.identity.people import People
    from gateway.quotas import administration
    from gateway.quotas.book import PolicyBook
    from gateway.quotas.service import QuotaService
    from gateway.store.lookup import Lookup
    from gateway.store.records import Records

    directory = office.directory
    people = People(directory, Lookup(directory, 0), GroupBook(directory, 0), settings.issuers)
    book = PolicyBook(Records(store), 0)
    quotas = QuotaService(store, book, settings.prices, settings.quota_time_zone, settings.lease_seconds)
    who = await principal_of(office, people.known, query)
    return await administration.in_effect(quotas, who, query.model)


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


def _spoken(value: object) -> str:
    return (", ".join(map(str, value)) or "(none)") if isinstance(value, tuple) else str(value)
