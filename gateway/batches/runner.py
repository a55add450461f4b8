"""Looks for batches that nobody runs, and runs them: those just made, and those of gateways that died."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress

from gateway.batches.book import Book
from gateway.batches.lease import Lease
from gateway.batches.records import Batch
from gateway.batches.run import Parts, Run
from gateway.errors import StoreAway
from gateway.store.redis import Store

log = logging.getLogger("sekisho.batches")

_LOOK_SECONDS = 1.0
_SWEEP_SECONDS = 3600.0
# At once in one gateway; and of one person, so that many batches of one do not keep the others' from beginning.
_MOST = 32
_MOST_OF_ONE = 4


class Runner:
    """`start` before use, `aclose` after."""

    def __init__(self, store: Store, book: Book, parts: Parts, lease_seconds: float) -> None:
        self._store = store
        self._book = book
        self._parts = parts
        self._lease_seconds = lease_seconds
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}  # batch > whose, and what runs it
        self._news = asyncio.Event()
        self._swept = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Batches that this gateway runs."""
        return len(self._running)

    def start(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def aclose(self) -> None:
        """What runs here is left as it is; another gateway may take it at once."""
        tasks = [task for _, task in self._running.values()]
        if self._task is not None:
            tasks.append(self._task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """There is a new batch."""
        self._news.set()

    async def _look(self) -> None:
        while True:
            with suppress(StoreAway):
                await self._take_up()
                await self._sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()
            self._news.clear()

    async def _take_up(self) -> None:
        mine = Counter(subject for subject, _ in self._running.values())
        for batch in await self._book.open():
            is_free = batch.id not in self._running and mine[batch.subject] < _MOST_OF_ONE
            if is_free and len(self._running) < _MOST:
                lease = Lease(self._store, batch.id, self._lease_seconds)
                if await lease.take():
                    mine[batch.subject] += 1
                    self._running[batch.id] = batch.subject, asyncio.create_task(self._run(batch.id, lease))

    async def _run(self, batch_id: str, lease: Lease) -> None:
        """Where it fails the lease is left to run out, so that it is tried again, and not at once."""
        try:
            batch = await self._parts.directory.find(Batch, batch_id)  # as it is now that nobody else runs it
            if not batch.has_ended:
                log.info("batch %s of %s is run here", batch_id, batch.subject)
                await Run(self._parts, batch, lease).go()
            await self._release(lease)
        except asyncio.CancelledError:
            await self._release(lease)
            raise
        except StoreAway:
            log.info("batch %s: Redis is away", batch_id)
        except Exception:
            log.exception("batch %s cannot be run", batch_id)
        finally:
            del self._running[batch_id]
            self._news.set()  # there is room

    async def _release(self, lease: Lease) -> None:
        with suppress(StoreAway):
            await lease.release()

    async def _sweep(self) -> None:
        if time.monotonic() - self._swept > _SWEEP_SECONDS:
            self._swept = time.monotonic()
            await self._book.sweep(time.time())
            await self._parts.files.sweep(time.time())
