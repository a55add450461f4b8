"""Which engines there are, and in what use: what the settings say, and over it what administrators ordered meanwhile.

Orders are records in Redis that every gateway looks at twice a second. Who gives them: administration.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec
from pydantic import ValidationError

from gateway.errors import StoreAway
from gateway.routing.fleet import Fleet
from gateway.routing.member import NoKey
from gateway.routing.shown import Use
from gateway.settings.engines import BackendSettings
from gateway.store.directory import Directory
from gateway.store.record import Record
from gateway.store.sealing import Sealer

log = logging.getLogger("sekisho.routing")

_LOOK_SECONDS = 0.5
MOST_ORDERS = 1000


class Placed(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An order about one engine; the id is its name. `added`: the settings of one that they do not name."""

    kind: ClassVar[str] = "backend"
    secret_fields: ClassVar[frozenset[str]] = frozenset({"api_key"})

    use: Use = "enabled"
    weight: float | None = None  # None: as the settings say
    added: dict[str, Any] | None = None  # without its key
    api_key: str = ""  # sealed


class Alias(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An order about a name that people use for a model; the id is the name. `model`: None where it is one no more."""

    kind: ClassVar[str] = "alias"

    model: str | None = None


class Placing:
    """`start` before use, `aclose` after. `disabled`: the settings of those that the fleet is not told of."""

    def __init__(
        self,
        directory: Directory,
        fleet: Fleet,
        sealer: Sealer,
        engines: Sequence[BackendSettings],
        aliases: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._fleet = fleet
        self._sealer = sealer
        self._engines = tuple(engines)
        self._aliases = aliases
        self.orders: dict[str, Placed] = {}
        self.renamed: dict[str, str | None] = {}  # models by alias, as ordered
        self.disabled: dict[str, BackendSettings] = {}
        # What is read first is followed first, or older orders would stand over newer ones for a moment.
        self._following = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the orders are known and followed, if Redis is there."""
        with suppress(StoreAway):
            await self.look()
        self._task = asyncio.create_task(self._keep_looking())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def named(self) -> frozenset[str]:
        """By the settings."""
        return frozenset(one.name for one in self._engines)

    @property
    def aliases(self) -> Mapping[str, str]:
        """As the settings have them."""
        return self._aliases

    async def take_over(self, engines: Sequence[BackendSettings], aliases: Mapping[str, str]) -> None:
        """New settings. Raises NoKey before anything has changed."""
        async with self._following:
            before = self._engines, self._aliases
            self._engines, self._aliases = tuple(engines), aliases
            try:
                await self._apply(self.orders, self.renamed)
            except NoKey:
                self._engines, self._aliases = before
                raise

    async def look(self) -> None:
        """Follow the orders as they are now. Raises StoreAway."""
        async with self._following:
            found = {order.id: order for order in await self._directory.page(Placed, limit=MOST_ORDERS)}
            renamed = {alias.id: alias.model for alias in await self._directory.page(Alias, limit=MOST_ORDERS)}
            if (found, renamed) != (self.orders, self.renamed):
                await self._apply(found, renamed)

    def sealed(self, name: str, api_key: str) -> str:
        return self._sealer.seal(api_key.encode(), name)

    async def _apply(self, orders: dict[str, Placed], renamed: dict[str, str | None]) -> None:
        added = [self._added(order) for order in orders.values() if order.added is not None]
        every = [*self._engines, *(one for one in added if one is not None and one.name not in self.named)]
        wanted = [_weighed(one, orders.get(one.name)) for one in every]
        use = {one.name: orders[one.name].use for one in wanted if one.name in orders}
        drained = {name for name, order in use.items() if order == "drained"}
        aliases = {name: model for name, model in {**self._aliases, **renamed}.items() if model is not None}
        await self._fleet.apply([one for one in wanted if use.get(one.name) != "disabled"], aliases, drained)
        self.disabled = {one.name: one for one in wanted if use.get(one.name) == "disabled"}
        self.orders, self.renamed = orders, renamed

    def _added(self, order: Placed) -> BackendSettings | None:
        """None where it cannot be used, which is said and keeps nobody from the other engines."""
        key = self._sealer.open(order.api_key, order.id) if order.api_key else None
        if order.api_key and key is None:
            log.error("backend %s: its key cannot be read with this server.key; add it again", order.id)
            return None
        try:
            return BackendSettings.model_validate({**(order.added or {}), "api_key": key and key.decode()})
        except ValidationError as error:
            log.error("backend %s was added by another release and cannot be used: %s", order.id, error)
            return None

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except StoreAway:
                continue  # what was ordered stands
            except (NoKey, msgspec.ValidationError) as error:
                log.error("orders about backends cannot be followed: %s", error)


def _weighed(one: BackendSettings, order: Placed | None) -> BackendSettings:
    return one if order is None or order.weight is None else one.model_copy(update={"weight": order.weight})
