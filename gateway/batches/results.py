"""The two files that a batch's results go to. A result counts once it is on the disk, and is there once only.

After a crash the files say what is done: a last line without its end was never a result, and is cut off.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class Result(NamedTuple):
    custom_id: str
    data: bytes  # a line of JSON, its end included
    ok: bool  # output, not error


class Taken(Exception):
    """Another process has these files open: it is not as dead as its lease says."""


class _Name(msgspec.Struct):
    custom_id: str


_name = msgspec.json.Decoder(_Name).decode


class Results:
    """`open` before use (it may block), `aclose` after. Raises OSError where the disk does not take them."""

    def __init__(self) -> None:
        self.done: set[str] = set()  # custom ids
        self.completed = self.failed = 0
        self._files: dict[bool, int] = {}  # by `Result.ok`
        self._waiting: list[Result] = []
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, output: Path, errors: Path) -> None:
        """Raises Taken. The lock on the output is the kernel's: it ends with its process, and no earlier."""
        for ok, path in ((True, output), (False, errors)):
            self._files[ok] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._files[True], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken from None
        for ok, path in ((True, output), (False, errors)):
            os.ftruncate(self._files[ok], self._recover(path, ok))

    async def add(self, *results: Result) -> None:
        """Returns once they are on the disk. Whoever stops waiting for that does not stop it."""
        task = asyncio.create_task(self._add(results))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def settled(self) -> None:
        """All that was added is on the disk, and counted."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def aclose(self) -> None:
        await self.settled()
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def sizes(self) -> tuple[int, int]:
        """Bytes of output and errors."""
        return os.fstat(self._files[True]).st_size, os.fstat(self._files[False]).st_size

    async def _add(self, results: Sequence[Result]) -> None:
        self._waiting += results
        async with self._writing:
            # Whoever comes first writes for all that came meanwhile: one wait for the disk, not one each.
            group, self._waiting = self._waiting, []
            if group:
                await asyncio.to_thread(self._write, group)
                for one in group:
                    self._count(one.custom_id, one.ok)
            if any(result.custom_id not in self.done for result in results):
                raise OSError("whoever was to write these with its own could not")

    def _write(self, group: list[Result]) -> None:
        for ok, file in self._files.items():
            if data := b"".join(one.data for one in group if one.ok is ok):
                _append(file, data)

    def _count(self, custom_id: str, ok: bool) -> None:
        self.done.add(custom_id)
        self.completed += ok
        self.failed += not ok

    def _recover(self, path: Path, ok: bool) -> int:
        """Takes note of what is done; the size of what is whole."""
        size = 0
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._count(_name(line).custom_id, ok)
                size += len(line)
        return size


def _append(file: int, data: bytes) -> None:
    """All of it and on the disk, or nothing of it."""
    before = os.fstat(file).st_size
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, before)
        raise


def answered(custom_id: str, status: int, request_id: str, body: Any) -> Result:
    """What came of a request that was asked."""
    response = {"status_code": status, "request_id": request_id, "body": body}
    return encode(custom_id, response, None, ok=status == 200)


def encode(custom_id: str, response: Any, error: Any, ok: bool) -> Result:
    """A result in the official form: `response` and `error` are objects or None."""
    value = {"id": f"batch_req_{secrets.token_hex(12)}", "custom_id": custom_id, "response": response, "error": error}
    return Result(custom_id, msgspec.json.encode(value) + b"\n", ok)
