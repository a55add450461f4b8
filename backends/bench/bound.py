"""The throughput that no server of a model can exceed on a machine, and what this machine moves and multiplies."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from backends.bench.report import Report
from backends.capacity import (
    ModelShape,
    active_parameters,
    kv_bytes_per_token,
    prefill_seconds,
    step_seconds,
    step_weight_bytes,
)

_BYTES = 256 << 20  # in all, which no cache holds
_SIDE = 1024  # of the matrices: 2 GFLOP a product
_ROUNDS = 5
_KV_ELEMENT_BYTES = 2.0


class Rates(NamedTuple):
    """bandwidth: bytes/s of the memory; operations: FLOP/s of products, None where they are not known."""

    bandwidth: float
    operations: float | None = None


class Work(NamedTuple):
    """Tokens of a request, means: of its prompt those that were computed and those that a prefix cache held."""

    prompt: float
    cached: float
    output: float


class Bound(NamedTuple):
    """tok_s: output tokens/s of the whole server; set_by: which of the three limits it is, in words."""

    tok_s: float
    set_by: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A model in a format of WEIGHT_BITS on a machine. about: both in words, with the figures and whose they are."""

    shape: ModelShape
    layers: str
    rates: Rates
    about: str

    def at(self, at_once: int, work: Work) -> Bound:
        return bound(at_once, work, self.shape, self.layers, self.rates)


def work_of(report: Report) -> Work:
    number = max(report.completed, 1)
    return Work(
        prompt=(report.total_input_tokens - report.total_cached_tokens) / number,
        cached=report.total_cached_tokens / number,
        output=report.total_output_tokens / number,
    )


def bound(at_once: int, work: Work, shape: ModelShape, layers: str, rates: Rates) -> Bound:
    """The asymptotic bounds of a closed system (Denning and Buzen, 1978): `at_once` requests are served no sooner than
    one of them alone would be, nor sooner than the memory moves, or the processors multiply, what all of them need.

        alone    = prompt + (output - 1) x step of one
        memory   = output x (weights + at_once x KV cache) / bandwidth
        products = at_once x 2 x (parameters x (prompt + output - 1) + head x output) / operations
        tok/s    = at_once x output / the largest of the three

    Without prompts and products it is `sekisho plan`'s batch / step time. How the server orders its steps does not
    matter, whether prompts and answers share them neither. layers: a format of WEIGHT_BITS. Attention's products are
    left out, which loosens the bound.
    """
    per_token = kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, _KV_ELEMENT_BYTES)
    context = work.prompt + work.cached + work.output / 2  # in the middle of the answer

    def step(batch: int) -> float:
        return step_seconds(
            batch,
            active_weight_bytes=step_weight_bytes(shape, batch, layers),
            kv_bytes_per_request=per_token * context,
            bandwidth_bytes_per_s=rates.bandwidth,
        )

    prefill, products = _multiplied(work, shape, rates.operations)
    limits = {
        "the time of one request alone": max(prefill, step(1)) + (work.output - 1) * step(1),
        "the memory": work.output * step(at_once),
        "the products": at_once * products,
    }
    set_by = max(limits, key=lambda name: limits[name])
    return Bound(at_once * work.output / limits[set_by], set_by)


def _multiplied(work: Work, shape: ModelShape, operations: float | None) -> tuple[float, float]:
    """Seconds of products: of a prompt up to its first token, and of the whole request."""
    if operations is None:
        return 0.0, 0.0

    def seconds(parameters: float, tokens: float) -> float:
        return prefill_seconds(tokens, active_parameters=parameters, operations_per_s=operations)

    layers, head = active_parameters(shape), shape.vocab_size * shape.hidden_size
    prefill = seconds(layers, work.prompt) + seconds(head, 1)
    return prefill, prefill + seconds(layers + head, work.output - 1)


def copy_bandwidth(total_bytes: int = _BYTES, rounds: int = _ROUNDS) -> float:
    """Bytes/s read and written, the best of `rounds`, by a thread for each core, as STREAM's copy counts them."""
    threads = _cores()
    share = total_bytes // threads
    pairs = [(ctypes.create_string_buffer(share), ctypes.create_string_buffer(share)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(lambda pair: ctypes.memmove(pair[0], pair[1], share), pairs))  # lets go of the GIL

        return 2 * share * threads / _quickest(copy, rounds)


def product_rate(side: int = _SIDE, rounds: int = _ROUNDS) -> float | None:
    """FLOP/s of a float32 product of two square matrices, the best of `rounds`; None where NumPy is not installed."""
    try:
        import numpy as np
    except ImportError:  # it comes with the engine
        return None
    left = np.full((side, side), 1.5, np.float32)
    return 2 * side**3 / _quickest(lambda: left @ left, rounds)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quickest(work: Callable[[], object], rounds: int) -> float:
    def seconds() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(seconds() for _ in range(rounds))
