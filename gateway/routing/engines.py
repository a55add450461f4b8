"""The engine behind the door: what it serves, whether it is up. Health is watched in the background."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from backends.base import Backend, ModelCard, Readiness
from backends.errors import BackendError
from gateway.errors import EngineAway, ModelNotFound

log = logging.getLogger("sekisho.routing")

_WATCH_READY_SECONDS = 5.0
_WATCH_AWAY_SECONDS = 0.25
# An unknown model name asks the engine again, but a client that repeats one does not become a load on it.
_RECHECK_SECONDS = 2.0


class Engines:
    """One engine for now; `find` is where a choice among several will be made."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.ready = False
        self._models: dict[str, ModelCard] = {}
        self._checked = 0.0
        self._refreshing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.backend.aclose()

    def models(self) -> Iterable[ModelCard]:
        return self._models.values()

    def lacks(self, model: str) -> bool:
        """Whether the engine is there and has no such model, as of the last look."""
        return self.ready and model not in self._models

    async def confirm(self, model: str) -> None:
        """The engine does not know the model: look again what it has. Raises ModelNotFound if it is gone."""
        await self._recheck()
        await self.card(model)

    async def card(self, model: str) -> ModelCard:
        """The model's card. Raises ModelNotFound, or EngineAway while it cannot be known."""
        if model not in self._models:
            await self._recheck()
        if model in self._models:
            return self._models[model]
        if not self._models:
            raise EngineAway("No engine is ready yet. Try again shortly.")
        raise ModelNotFound(f"The model `{model[:200]}` does not exist. See GET /v1/models for those that do.")

    async def find(self, model: str) -> Backend:
        """The backend to ask for `model`."""
        await self.card(model)
        return self.backend

    def note_away(self) -> None:
        """A request could not reach the engine: do not wait for the next look to say so."""
        self._set_ready(False)

    async def _recheck(self) -> None:
        async with self._refreshing:
            if time.monotonic() - self._checked > _RECHECK_SECONDS:
                await self._look()

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_WATCH_READY_SECONDS if self.ready else _WATCH_AWAY_SECONDS)

    async def _look(self) -> None:
        self._checked = time.monotonic()
        try:
            ready = await self.backend.readiness() is Readiness.READY
            if ready:
                self._models = {card.id: card for card in await self.backend.models()}
        except BackendError as error:
            log.debug("engine %s: %s", self.backend.name, error)
            ready = False
        self._set_ready(ready)

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            log.warning("engine %s is %s", self.backend.name, "ready" if ready else "away")
        self.ready = ready
