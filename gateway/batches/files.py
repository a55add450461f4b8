"""The files of people: content on disk under the file's id, which every gateway has to see; the rest in Redis.

A file is its owner's alone: to everybody else, administrators too, there is no such file. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from gateway.batches.owned import Owned
from gateway.batches.records import File, made_at
from gateway.errors import BadRequest, NotFound
from gateway.store.directory import Directory
from gateway.store.redis import Store

_ID = re.compile(r"file-[0-9a-f]{36}", re.ASCII)
_MOST_FILES = 10_000
# What was begun so long ago and has no record never will: its gateway died. Results may take as long as a batch.
_UPLOAD_SECONDS = 86_400
_UNKNOWN_SECONDS = 30 * 86_400


class Files:
    """Raises StoreAway."""

    def __init__(self, store: Store, directory: Directory, folder: Path, most_bytes: int) -> None:
        self._directory = directory
        self._owned = Owned(store, File.kind)
        self._folder = folder
        self._most_bytes = most_bytes

    def path(self, file_id: str) -> Path:
        """Where the content is. Names that people give never come here."""
        if not _ID.fullmatch(file_id):
            raise ValueError("not an id of ours")
        return self._folder / file_id

    def prepare(self) -> None:
        """The folder is there afterwards. May block, as `create` may."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, file_id: str) -> int:
        """A descriptor of a new and empty content, which nobody but this user of the machine can read."""
        self.prepare()
        return os.open(self.path(file_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    async def reserve(self, subject: str, file_id: str, size: int) -> None:
        """Room for a content that is still to come. Raises BadRequest where they have too much here already."""
        for _ in range(2):
            if await self._owned.put(subject, file_id, size, self._most_bytes, _MOST_FILES):
                return
            await self._forget_abandoned(subject)
        raise BadRequest(
            f"You may keep {self._most_bytes} bytes in {_MOST_FILES} files here, and this is more. "
            "Delete files that you no longer need.",
            code="storage_limit_exceeded",
        )

    async def keep(self, file: File) -> None:
        """From here on the file is there. Its content is complete; results are kept even where they are too much."""
        await self._owned.put(file.subject, file.id, file.bytes)
        await self._directory.create(None, file)

    async def discard(self, subject: str, file_id: str) -> None:
        """Take back what was reserved, and the content with it."""
        await self._remove(file_id)
        await self._owned.drop(subject, file_id)

    async def find(self, subject: str, file_id: str) -> File:
        """Raises NotFound."""
        found = await self._directory.get(File, file_id) if _ID.fullmatch(file_id) else None
        if found is None or found.subject != subject or found.expires <= time.time():
            raise NotFound(f"No such File object: {file_id[:100]}.", param="id")
        return found

    async def listed(self, subject: str) -> list[File]:
        """Oldest first."""
        found = await self._directory.some(File, await self._owned.ids(subject))
        return [file for file in found if file.expires > time.time()]

    async def delete(self, file: File) -> None:
        with suppress(NotFound):  # somebody else was quicker
            await self._directory.delete(None, File, file.id)
        await self.discard(file.subject, file.id)

    async def sweep(self, now: float) -> None:
        """Delete what has expired, and what was abandoned before it was complete."""
        async for file in self._all():
            if file.expires <= now:
                await self.delete(file)
        for file_id in await asyncio.to_thread(self._contents):
            if made_at(file_id) + _UNKNOWN_SECONDS < now and await self._directory.get(File, file_id) is None:
                await self._remove(file_id)

    async def _forget_abandoned(self, subject: str) -> None:
        ids = await self._owned.ids(subject)
        known = {file.id for file in await self._directory.some(File, ids)}
        for file_id in ids:
            if file_id not in known and made_at(file_id) + _UPLOAD_SECONDS < time.time():
                await self.discard(subject, file_id)

    async def _remove(self, file_id: str) -> None:
        await asyncio.to_thread(self.path(file_id).unlink, missing_ok=True)

    async def _all(self) -> AsyncIterator[File]:
        after = ""
        while found := await self._directory.page(File, after):
            for file in found:
                yield file
            after = found[-1].id

    def _contents(self) -> list[str]:
        try:
            return [path.name for path in self._folder.iterdir() if _ID.fullmatch(path.name)]
        except FileNotFoundError:
            return []
