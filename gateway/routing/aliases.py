"""What administrators do with the names that people use for models: point them elsewhere, end them. Checks no right."""

from __future__ import annotations

import time

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.routing.administration import Engines
from gateway.routing.placing import MOST_ORDERS, Alias
from gateway.store.directory import Actor


async def point(engines: Engines, actor: Actor, name: str, model: str) -> None:
    """From now on the name stands for this model, whatever the settings say; what they say takes the order back."""
    directory, placing, fleet = engines
    if model in fleet.aliases or model == name:
        raise BadRequest(f"model: {model[:200]!r} is an alias itself; expected the name of a model.", param="model")
    if any(name in member.names for member in fleet.members.values()):
        raise Conflict(f"There is a model {name[:200]!r}: whoever asks for it is to get it.", param="id")
    if name not in placing.renamed and len(placing.renamed) >= MOST_ORDERS:
        raise Conflict(f"At most {MOST_ORDERS} aliases have orders. End some first.")
    if placing.aliases.get(name) != model:
        await _order(engines, actor, name, model)
    elif name in placing.renamed:
        await directory.delete(actor, Alias, name)
    await placing.look()


async def end(engines: Engines, actor: Actor, name: str) -> None:
    """The name stands for nothing any more."""
    directory, placing, fleet = engines
    if name not in fleet.aliases:
        raise NotFound(f"There is no alias {name[:200]!r}.", param="id")
    if name in placing.aliases:
        await _order(engines, actor, name, None)
    else:
        await directory.delete(actor, Alias, name)
    await placing.look()


async def _order(engines: Engines, actor: Actor, name: str, model: str | None) -> None:
    order = Alias(id=name, created=int(time.time()), model=model)
    if await engines.directory.get(Alias, name) is None:
        await engines.directory.create(actor, order)
    else:
        await engines.directory.change(actor, Alias, name, lambda before: order)
