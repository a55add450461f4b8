"""One batch from its first line to its last, by the gateway that has its lease. Knows neither pipeline nor HTTP.

Whatever ends it early, the results that are on the disk stay, and whoever runs the batch next runs the rest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from gateway.batches import lines
from gateway.batches.files import Files
from gateway.batches.lease import Lease
from gateway.batches.records import Batch, Counts, Ending, Fault, File, Status, moved
from gateway.batches.results import Results, answered, encode
from gateway.errors import Conflict, DoorError, StoreAway
from gateway.scope import Principal
from gateway.store.directory import Directory
from gateway.telemetry.metrics import Metrics

_TEND_SECONDS = 1.0
# Where an answer does not say when to come back.
_RETRY_SECONDS = 5
# An engine that died in the middle of an answer is asked again; one that always dies of it is not.
_ATTEMPTS = 3
_EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


class Answer(NamedTuple):
    status: int
    retry_after: int | None
    request_id: str
    body: Any  # decoded


# As a client would ask: principal, path, body.
Ask = Callable[[Principal, str, bytes], Awaitable[Answer]]


class Parts(NamedTuple):
    """What a run works with."""

    directory: Directory
    files: Files
    metrics: Metrics
    ask: Ask
    principal_of: Callable[[Batch], Awaitable[Principal]]  # raises DoorError where they may no longer ask
    parallel: int
    longest_body: int


class Run:
    def __init__(self, parts: Parts, batch: Batch, lease: Lease) -> None:
        self._parts = parts
        self._batch = batch
        self._lease = lease
        self._results = Results()
        self._total = batch.counts.total
        self._fault: Fault | None = None  # why the lines that are left are not asked

    async def go(self) -> None:
        """Returns when the batch has ended, or is somebody else's. Raises StoreAway, Taken and OSError."""
        output, errors = (self._path(name) for name in (self._batch.output_file, self._batch.error_file))
        try:
            await asyncio.to_thread(self._parts.files.prepare)
            await asyncio.to_thread(self._results.open, output, errors)
            if self._batch.status == "cancelling":
                await self._end("cancelled")
            elif (found := await self._read()) is not None:
                await self._run(found)
        finally:
            await self._results.aclose()

    async def _read(self) -> lines.Input | None:
        """The input; None where it cannot be used, and the batch has failed."""
        path = self._path(self._batch.input_file)
        try:
            found = await asyncio.to_thread(lines.read, path, self._batch.endpoint, self._parts.longest_body)
        except lines.InvalidInput as error:
            await self._end("failed", tuple(error.faults))
        except FileNotFoundError:
            await self._end("failed", (Fault(code="input_file_gone", message="The input file is gone."),))
        else:
            return found
        return None

    async def _run(self, found: lines.Input) -> None:
        self._total = len(found.lines)
        await self._move("in_progress", model=found.model, counts=self._counts())
        if not (left := self._left(found.lines)):
            await self._end("completed")
            return
        tending, working = asyncio.create_task(self._tend()), asyncio.create_task(self._work(left))
        try:
            seconds = max(0.0, self._batch.expires - time.time())
            done, _ = await asyncio.wait((tending, working), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tending.cancel()
            working.cancel()
            await asyncio.gather(tending, working, return_exceptions=True)
            await self._results.settled()
        if tending in done:
            if self._batch.status == "cancelling":  # else it is no longer ours, and nothing of it is touched
                await self._end("cancelled")
        elif self._fault is not None:
            await self._end("failed", (self._fault,))
        elif working in done:
            working.result()  # raises what went wrong
            await self._end("completed")
        else:
            await self._expire(self._left(found.lines))

    def _left(self, all_of_them: list[lines.Line]) -> list[lines.Line]:
        return [line for line in all_of_them if line.custom_id not in self._results.done]

    async def _tend(self) -> None:
        """Renews the lease and tells how far it is, until the batch is not to be run any more."""
        while not self._lease.is_over and self._batch.status in ("in_progress", "finalizing"):
            await asyncio.sleep(_TEND_SECONDS)
            with suppress(StoreAway):
                if await self._lease.take():
                    await self._change(lambda before: replace(before, counts=self._counts()))

    async def _work(self, todo: list[lines.Line]) -> None:
        source = self._parts.files.path(self._batch.input_file)
        left = iter(todo)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parts.parallel):
                group.create_task(self._work_off(source, left))

    async def _work_off(self, source: Path, left: Iterator[lines.Line]) -> None:
        for line in left:
            answer = await self._answer(await asyncio.to_thread(lines.read_body, source, line))
            if answer is None:
                return
            await self._record(line, answer)

    async def _answer(self, body: bytes) -> Answer | None:
        """A line's answer, however long it takes; None where the batch cannot go on."""
        attempts = 0
        while self._fault is None:
            attempts += 1
            try:
                principal = await self._parts.principal_of(self._batch)
            except StoreAway:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            except DoorError as error:
                self._fault = Fault(code=error.code or "not_allowed", message=error.message)
                break
            answer = await self._parts.ask(_without_haste(principal), self._batch.endpoint, body)
            if answer.status == 401:
                self._fault = Fault(code="credential_revoked", message=_message(answer))
            elif (pause := _pause(answer, attempts)) is None:
                return answer
            else:
                await asyncio.sleep(pause)
        return None

    async def _record(self, line: lines.Line, answer: Answer) -> None:
        result = answered(line.custom_id, answer.status, answer.request_id, answer.body)
        try:
            await self._results.add(result)
        except OSError:
            self._fault = Fault(code="storage_failed", message="The results cannot be written. Tell an administrator.")
            return
        self._parts.metrics.batch_lines.add("completed" if result.ok else "failed")

    async def _expire(self, todo: list[lines.Line]) -> None:
        results = [encode(line.custom_id, None, _EXPIRED, ok=False) for line in todo]
        await self._results.add(*results)
        self._parts.metrics.batch_lines.add("expired", by=len(results))
        await self._end("expired")

    async def _end(self, ending: Ending, faults: tuple[Fault, ...] = ()) -> None:
        if ending == "completed" and (await self._move("finalizing")).status == "cancelling":
            ending = "cancelled"
        batch = self._batch
        sizes = self._results.sizes()
        for file_id, size, name in zip((batch.output_file, batch.error_file), sizes, ("output", "error"), strict=True):
            await self._keep(file_id, size, f"{batch.id}_{name}.jsonl")
        has_output, has_errors = (size > 0 for size in sizes)
        changes = {"counts": self._counts(), "has_output": has_output, "has_errors": has_errors}
        await self._move(ending, faults=faults, **changes)

    async def _keep(self, file_id: str, size: int, name: str) -> None:
        batch = self._batch
        if not size:
            await asyncio.to_thread(self._path(file_id).unlink, missing_ok=True)
            return
        now = int(time.time())
        file = File(
            id=file_id,
            subject=batch.subject,
            filename=name,
            purpose="batch_output",
            bytes=size,
            created=now,
            expires=now + batch.output_life,
        )
        with suppress(Conflict):  # by whoever died before it could say that the batch has ended
            await self._parts.files.keep(file)

    async def _move(self, status: Status, **changes: Any) -> Batch:
        return await self._change(lambda before: moved(before, status, **changes))

    async def _change(self, edit: Callable[[Batch], Batch]) -> Batch:
        self._batch = await self._parts.directory.change(None, Batch, self._batch.id, edit)
        return self._batch

    def _counts(self) -> Counts:
        return Counts(self._total, self._results.completed, self._results.failed)

    def _path(self, file_id: str) -> Path:
        return self._parts.files.path(file_id)


def _pause(answer: Answer, attempts: int) -> float | None:
    """Seconds after which a line is asked again; None where its answer is its result."""
    later = answer.status == 503 or (answer.status == 429 and _error(answer).get("code") != "insufficient_quota")
    if later or (answer.status == 502 and attempts < _ATTEMPTS):
        return max(1, answer.retry_after or _RETRY_SECONDS)
    return None


def _without_haste(principal: Principal) -> Principal:
    return dataclasses.replace(principal, grant=dataclasses.replace(principal.grant, queue_class="batch"))


def _error(answer: Answer) -> dict[str, Any]:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return error if isinstance(error, dict) else {}


def _message(answer: Answer) -> str:
    return str(_error(answer).get("message", "The credential that began this batch is no longer good."))
