"""A batch answered by a model loaded in this process: no gateway, no keys, no quotas.

The output says what is done: the same command, started again, asks only what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from gateway.batches import lines
from gateway.batches.records import Endpoint
from gateway.batches.results import Results, Taken, answered
from gateway.cli.console import CliError, note
from gateway.cli.progress import lines_of

if TYPE_CHECKING:
    from native_engine.config import EngineConfig
    from native_engine.server.offline import Ask

_ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


class Done(NamedTuple):
    completed: int
    failed: int
    total: int


async def run(source: Path, endpoint: str, output: Path, errors: Path, config: EngineConfig, data_dir: Path) -> Done:
    """Asks all lines that have no result yet. Raises CliError for an input that is no batch."""
    from native_engine.server.offline import answering

    given, results = _read(source, endpoint), Results()
    try:
        results.open(output, errors)
    except Taken:
        raise CliError(f"{output} is being written by another run. Give another --output.", exit_code=2) from None
    try:
        left = [line for line in given.lines if line.custom_id not in results.done]
        if len(left) < len(given.lines):
            note(f"Going on: {len(given.lines) - len(left)} of {len(given.lines)} have their results.")
        if left:
            async with answering(config, data_dir, given.model) as ask:
                await _ask_all(ask, source, endpoint, left, results, len(given.lines), 2 * config.max_num_seqs)
    finally:
        await results.aclose()
        _drop_empty(errors)
    return Done(results.completed, results.failed, len(given.lines))


async def _ask_all(
    ask: Ask, source: Path, endpoint: str, left: list[lines.Line], results: Results, total: int, parallel: int
) -> None:
    """`parallel` lines at a time: the engine is never without work, and what waits is not all tokenised at once."""
    todo = iter(left)
    with lines_of("batch") as tell:

        def show() -> None:
            tell("in_progress", results.completed, results.failed, total)

        async def work_off(todo: Iterator[lines.Line]) -> None:
            for line in todo:
                answer = await ask(endpoint, await asyncio.to_thread(lines.read_body, source, line))
                body = msgspec.Raw(answer.body)
                await results.add(answered(line.custom_id, answer.status, answer.request_id, body))
                show()

        show()
        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(work_off(todo))


def _drop_empty(path: Path) -> None:
    if not path.stat().st_size:
        path.unlink()


def _read(source: Path, endpoint: str) -> lines.Input:
    from native_engine.server.http import MAX_BODY_BYTES

    if endpoint not in _ENDPOINTS:
        raise CliError(f"the first line asks {endpoint[:100]}; here it can be one of {', '.join(_ENDPOINTS)}.")
    try:
        return lines.read(source, cast(Endpoint, endpoint), MAX_BODY_BYTES)
    except lines.InvalidInput as fault:
        told = [f"line {each.line}: {each.message}" if each.line else each.message for each in fault.faults]
        raise CliError("the input is no batch:\n  " + "\n  ".join(told)) from None
