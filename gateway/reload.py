"""Takes over a settings file that has changed, as far as a running gateway can. A bad one is refused whole."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.errors import DoorError
from gateway.routing.member import NoKey
from gateway.settings import Settings, SettingsError
from gateway.settings.shown import LIVE

log = logging.getLogger("sekisho.settings")

_LOOK_SECONDS = 1.0


class Reload:
    """`read` gives the settings as they would be now; `apply` takes them over. `start` and `aclose`."""

    def __init__(
        self, file: Path, settings: Settings, read: Callable[[], Settings], apply: Callable[[Settings], Awaitable[None]]
    ) -> None:
        self._file = file
        self._settings = settings
        self._read = read
        self._apply = apply
        self._seen = _mark(file)
        self.refused = False  # the file as it is now
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if (mark := _mark(self._file)) != self._seen:
                self._seen = mark
                await self._take()

    async def _take(self) -> None:
        try:
            wanted = self._read()
            await self._apply(wanted)
        except (SettingsError, NoKey, DoorError) as error:
            self.refused = True
            log.error("the changed %s cannot be used, and all stays as it was: %s", self._file, error)
            return
        self.refused = False
        if waiting := sorted(name for name in _changed(self._settings, wanted) if name not in LIVE):
            log.warning("these settings have changed and hold after a restart: %s", ", ".join(waiting))
        log.warning("%s was taken over", self._file)


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _changed(before: Settings, after: Settings) -> list[str]:
    return [name for name in type(before).model_fields if getattr(before, name) != getattr(after, name)]
