"""One run from start to report: find the model, fit the prompt length, warm up, send, collect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import uvloop

from backends.bench.arrivals import arrivals
from backends.bench.client import Client, Sample
from backends.bench.config import BenchConfig, BenchError, validate
from backends.bench.datasets import Conversation, Message, conversations, repeated, user
from backends.bench.prompts import Scale, fitted, prompt
from backends.bench.report import Report, make_report
from backends.bench.strain import StrainGauge
from backends.bench.watch import ServerWatch

T = TypeVar("T")

Schedule = list[tuple[Conversation, float]]  # and the seconds from the start at which it begins

_SHORT_WORDS = 8


@dataclass(slots=True)
class Progress:
    """Where a run stands; handed to `on_progress` when a request starts or ends."""

    total: int
    started: int = 0
    done: int = 0
    failed: int = 0
    output_tokens: int = 0
    start: float = field(default_factory=time.perf_counter)

    @property
    def running(self) -> int:
        return self.started - self.done - self.failed

    @property
    def output_throughput(self) -> float:
        return self.output_tokens / max(time.perf_counter() - self.start, 1e-9)


OnProgress = Callable[[Progress], None]


def run_bench(config: BenchConfig, on_progress: OnProgress | None = None) -> Report:
    """Measure, from a program that runs no event loop. Raises BenchError where the run cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # leaves more of a shared machine to the server
        return runner.run(measure(config, on_progress))


async def measure(config: BenchConfig, on_progress: OnProgress | None = None) -> Report:
    if faults := validate(config):
        raise BenchError("; ".join(faults))
    date = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    async with Client(config) as client:
        model = config.model or await client.first_model()
        scale = await _fit(client, config, model)
        asked = conversations(config, scale)
        times = arrivals(config, [one.at for one in asked])
        await _gather([client.send(model, [user(text)], config.output_tokens) for text in _warmups(config, scale)])
        schedule = list(zip(asked, times, strict=True))
        async with ServerWatch(config) as watch, StrainGauge() as gauge:
            samples = await _send_all(client, config, model, schedule, gauge, on_progress)
    return make_report(config, model, date, samples, strain=gauge.read(), server=watch.read(), repeated=repeated(asked))


def _warmups(config: BenchConfig, scale: Scale) -> list[str]:
    """Prompts that occur neither in the run nor in fitting."""
    return [prompt(scale.words_for(config.input_tokens), 0, config.seed, -3 - at) for at in range(config.num_warmups)]


async def _fit(client: Client, config: BenchConfig, model: str) -> Scale:
    """Two one-token requests tell how many tokens a word is here, and that the server answers at all."""
    long_words = max(config.input_tokens, 2 * _SHORT_WORDS)
    short = await _first(client, model, prompt(_SHORT_WORDS, 0, config.seed, -1))
    if not short.counted_by_server:
        return Scale()
    long = await _first(client, model, prompt(long_words, 0, config.seed, -2))
    return fitted(_SHORT_WORDS, short.prompt_tokens, long_words, long.prompt_tokens)


async def _first(client: Client, model: str, text: str) -> Sample:
    sample = await client.send(model, [user(text)], 1)
    if sample.error:
        raise BenchError(f"the first request failed: {sample.error}")
    return sample


async def _send_all(
    client: Client,
    config: BenchConfig,
    model: str,
    asked: Schedule,
    gauge: StrainGauge,
    on_progress: OnProgress | None,
) -> list[Sample]:
    """Whoever has come holds a place for the whole conversation, as a person does."""
    progress = Progress(sum(len(conversation.turns) for conversation, _ in asked))
    gate: AbstractAsyncContextManager[None] = (
        asyncio.Semaphore(config.concurrency) if config.concurrency else nullcontext()
    )
    start = time.perf_counter()

    async def converse(conversation: Conversation, at: float) -> list[Sample]:
        if at > 0:
            await asyncio.sleep(start + at - time.perf_counter())
            gauge.note_send(time.perf_counter() - start - at)
        came = time.perf_counter()
        async with gate:
            queued = time.perf_counter() - came
            samples = await _converse(client, model, conversation, progress, on_progress)
        samples[0].queued = queued
        return samples

    held = await _gather([converse(one, at) for one, at in asked])
    return [sample for samples in held for sample in samples]


async def _converse(
    client: Client, model: str, conversation: Conversation, progress: Progress, on_progress: OnProgress | None
) -> list[Sample]:
    """Turn after turn, each with what was said so far. A turn that failed is forgotten by those after it."""
    said: list[Message] = []
    samples = []
    for turn in conversation.turns:
        asked = [*said, *turn.messages]
        _tell(progress, on_progress, started=1)
        sample = await client.send(model, asked, turn.output_tokens, keep_text=turn is not conversation.turns[-1])
        _tell(progress, on_progress, done=not sample.error, failed=bool(sample.error), tokens=sample.output_tokens)
        samples.append(sample)
        if not sample.error:
            said = [*asked, {"role": "assistant", "content": sample.answer}]
    return samples


def _tell(
    progress: Progress,
    on_progress: OnProgress | None,
    *,
    started: int = 0,
    done: int = 0,
    failed: int = 0,
    tokens: int = 0,
) -> None:
    progress.started += started
    progress.done += done
    progress.failed += failed
    progress.output_tokens += tokens
    if on_progress:
        on_progress(progress)


async def _gather(work: list[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order. One bug or cancellation ends them all: no request outlives the run."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
