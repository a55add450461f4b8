"""How quickly a memory-bound decode runs.

One step reads the active weights once for the whole batch, and every request's KV cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from backends.capacity.line import Cost


class ThroughputRow(NamedTuple):
    batch: int
    total_tok_s: float
    per_user_tok_s: float
    meets_target: bool


def step_seconds(
    batch: int, *, active_weight_bytes: float, kv_bytes_per_request: float, bandwidth_bytes_per_s: float
) -> float:
    """Seconds of one decode step."""
    return Cost(active_weight_bytes, kv_bytes_per_request).of(batch) / bandwidth_bytes_per_s


def prefill_seconds(tokens: float, *, active_parameters: float, operations_per_s: float) -> float:
    """Seconds in which a compute-bound prefill multiplies `tokens` by the weights; attention is left out."""
    return 2 * active_parameters * tokens / operations_per_s


def total_tok_s(batch: int, step: float) -> float:
    """Output tokens per second of the whole server; `step` in seconds."""
    return batch / step


def per_user_tok_s(step: float) -> float:
    """Output tokens per second that each person sees; `step` in seconds."""
    return 1 / step


def throughput_rows(
    batches: Iterable[int],
    *,
    active_weight_bytes: float,
    kv_bytes_per_request: float,
    bandwidth_bytes_per_s: float,
    target_tok_s: float,
) -> list[ThroughputRow]:
    """The planner's table: total and per-user speed at each batch size, and whether the latter meets the target."""
    rows = []
    for batch in batches:
        step = step_seconds(
            batch,
            active_weight_bytes=active_weight_bytes,
            kv_bytes_per_request=kv_bytes_per_request,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        )
        speed = per_user_tok_s(step)
        rows.append(ThroughputRow(batch, total_tok_s(batch, step), speed, speed >= target_tok_s))
    return rows


def largest_batch(
    target_tok_s: float, *, active_weight_bytes: float, kv_bytes_per_request: float, bandwidth_bytes_per_s: float
) -> int:
    """The most requests at once that still give each person `target_tok_s`; 0 where one alone is too slow."""
    return Cost(active_weight_bytes, kv_bytes_per_request).largest_batch(bandwidth_bytes_per_s / target_tok_s)


def sequential_seconds(users: int, output_tokens: int, step: float) -> float:
    """Seconds until the last of `users` is done where they are served one after the other; `step` at batch 1."""
    return users * output_tokens * step


def batched_seconds(output_tokens: int, step: float) -> float:
    """Seconds until all are done where they are served together; `step` at that batch size."""
    return output_tokens * step
