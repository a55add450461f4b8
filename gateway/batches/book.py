"""The batches of people: begun, found, listed, cancelled. As with files, a batch is its owner's alone."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from gateway.batches.owned import Owned
from gateway.batches.records import NEXT, Batch, made_at, moved
from gateway.errors import BadRequest, Conflict, NotFound
from gateway.store import keys
from gateway.store.directory import Directory
from gateway.store.redis import Store

_ID = re.compile(r"batch_[0-9a-f]{36}", re.ASCII)
_MOST_BATCHES = 1000
_KEPT_SECONDS = 30 * 86_400
# Between a batch's entry among the open ones and its record.
_BEGINNING_SECONDS = 60.0


class Book:
    """Raises StoreAway."""

    def __init__(self, store: Store, directory: Directory) -> None:
        self._store = store
        self._directory = directory
        self._owned = Owned(store, Batch.kind)

    async def begin(self, batch: Batch) -> None:
        """Raises BadRequest where they have too many."""
        if not await self._owned.put(batch.subject, batch.id, most=_MOST_BATCHES):
            raise BadRequest(
                f"You have {_MOST_BATCHES} batches here; a batch is forgotten 30 days after its end.",
                code="too_many_batches",
            )
        await self._store.command("ZADD", keys.OPEN_BATCHES, 0, batch.id)
        await self._directory.create(None, batch)

    async def find(self, subject: str, batch_id: str) -> Batch:
        """Raises NotFound."""
        found = await self._directory.get(Batch, batch_id) if _ID.fullmatch(batch_id) else None
        if found is None or found.subject != subject:
            raise NotFound(f"No such Batch object: {batch_id[:100]}.", param="id")
        return found

    async def listed(self, subject: str) -> list[Batch]:
        """Oldest first."""
        return await self._directory.some(Batch, await self._owned.ids(subject))

    async def cancel(self, batch: Batch) -> Batch:
        """Whoever runs it hears of it within seconds. Raises Conflict where it is over."""
        after = await self._directory.change(None, Batch, batch.id, lambda before: moved(before, "cancelling"))
        if after.status not in ("cancelling", "cancelled"):
            raise Conflict(f"A batch that is {after.status} cannot be cancelled.")
        return after

    async def open(self) -> Sequence[Batch]:
        """Those that have not ended, oldest first."""
        ids = [name.decode() for name in await self._store.command("ZRANGE", keys.OPEN_BATCHES, 0, -1)]
        found = {batch.id: batch for batch in await self._directory.some(Batch, ids)}
        for batch_id in ids:
            batch = found.get(batch_id)
            ended = batch.status not in NEXT if batch else made_at(batch_id) + _BEGINNING_SECONDS < time.time()
            if ended:
                await self._store.command("ZREM", keys.OPEN_BATCHES, batch_id)
        return [batch for batch in found.values() if batch.status in NEXT]

    async def sweep(self, now: float) -> None:
        """Forget what ended long ago."""
        after = ""
        while found := await self._directory.page(Batch, after):
            for batch in found:
                if batch.status not in NEXT and max(batch.at.values()) + _KEPT_SECONDS < now:
                    await self._directory.delete(None, Batch, batch.id)
                    await self._owned.drop(batch.subject, batch.id)
            after = found[-1].id
