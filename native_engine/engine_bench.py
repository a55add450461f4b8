"""Times the whole engine, scheduler and all: prompts of one length, decodes of several batches; and their limits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from backends.capacity import (
    ModelShape,
    active_parameters,
    kv_bytes_per_token,
    prefill_seconds,
    step_seconds,
    step_weight_bytes,
)
from native_engine.config import BLOCK_SIZE
from native_engine.engine import Engine
from native_engine.request import SamplingParams
from native_engine.request import Sequence as Request

# As random_weights makes them: of each format, what matrices and the head are stored in.
_STORED = {"bf16": ("BF16", "BF16"), "fp8": ("FP8_E4M3", "FP8_E4M3"), "int4": ("INT4_128_F16", "INT8")}

Busy = Callable[[Callable[[], None]], float]


class DecodeTime(NamedTuple):
    """Seconds of one step of `batch` sequences: from one to the next, and those in which the device was busy; the
    difference is what of the host's work was not hidden."""

    batch: int
    seconds: float
    device_seconds: float


def decode_limit(shape: ModelShape, weight_format: str, batch: int, context: int, bytes_per_s: float) -> float:
    """Seconds in which weights, and keys and values of two bytes, are read at `bytes_per_s`."""
    layers, head = _STORED[weight_format]
    return step_seconds(
        batch,
        active_weight_bytes=step_weight_bytes(shape, batch, layers, head=head),
        kv_bytes_per_request=context * kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, 2),
        bandwidth_bytes_per_s=bytes_per_s,
    )


def prefill_limit(shape: ModelShape, tokens: int, operations_per_s: float) -> float:
    return prefill_seconds(tokens, active_parameters=active_parameters(shape), operations_per_s=operations_per_s)


def time_prefill(engine: Engine, tokens: int, vocabulary: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds until the first token of a prompt of `tokens`; the second of two, since the first one builds kernels."""
    seconds = 0.0
    for number in range(2):
        engine.add(_request(f"prompt {tokens} {number}", tokens, 1, vocabulary))
        began = clock()
        while engine.scheduler.live:
            engine.step()
        seconds = clock() - began
    return seconds


def fitting(engine: Engine, batches: Sequence[int], context: int, steps: int) -> list[int]:
    """Those of `batches` whose sequences the KV cache holds at once, with all that they say here."""
    blocks = -(-(context + _answer(engine, batches, context, steps)) // BLOCK_SIZE)
    return [batch for batch in batches if batch * blocks <= engine.scheduler.blocks.num_blocks]


def time_decodes(
    engine: Engine,
    batches: Sequence[int],
    context: int,
    vocabulary: int,
    busy: Busy,
    steps: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[DecodeTime]:
    """The largest batch first: its prompts are computed once, and some of them leave before each smaller one.

    busy: seconds in which the device computes while it calls what it is given. steps: of each batch, once for its time
    and once more for `busy`.
    """
    answer = _answer(engine, batches, context, steps)
    requests = [_request(f"decode {number}", context, answer, vocabulary) for number in range(max(batches))]
    for request in requests:
        engine.add(request)
    while any(len(request.token_ids) == context for request in requests):
        engine.step()
    for batch in sorted(batches, reverse=True):
        for request in requests[batch:]:
            engine.abort(request.request_id)
        _run(engine, -(-steps // 4))
        began = clock()
        _run(engine, steps)
        seconds = (clock() - began) / steps
        yield DecodeTime(batch, seconds, busy(lambda: _run(engine, steps)) / steps)
    engine.abort_all()


def _answer(engine: Engine, batches: Sequence[int], context: int, steps: int) -> int:
    """Tokens that the first sequence says: while the other prompts are computed, and in the steps that are timed."""
    budget = engine.scheduler.max_num_batched_tokens - max(batches)
    return -(-max(batches) * context // max(budget, 1)) + len(batches) * 3 * steps + 2


def _run(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.step()


def _request(name: str, tokens: int, answer: int, vocabulary: int) -> Request:
    prompt = random.Random(name).choices(range(vocabulary), k=tokens)
    return Request(name, prompt, SamplingParams(max_tokens=answer))
