"""Memory and throughput arithmetic, as pure functions of plain numbers: no torch, no engine, no measurements.

Bytes are bytes (no GiB), times are seconds, rates are tokens per second.
"""

from __future__ import annotations

from backends.capacity.line import Cost, Moments, wait_seconds
from backends.capacity.machines import MACHINES, Machine
from backends.capacity.memory import (
    GIB,
    KIB,
    conversations_held,
    kv_budget_bytes,
    kv_bytes_per_token,
    num_kv_blocks,
    weight_bytes,
)
from backends.capacity.shapes import HUB_NAMES, SHAPES
from backends.capacity.throughput import (
    ThroughputRow,
    batched_seconds,
    largest_batch,
    per_user_tok_s,
    prefill_seconds,
    sequential_seconds,
    step_seconds,
    throughput_rows,
    total_tok_s,
)
from backends.capacity.weights import (
    WEIGHT_BITS,
    ModelShape,
    active_parameters,
    experts_read,
    experts_read_skewed,
    model_weight_bytes,
    step_weight_bytes,
)

__all__ = [
    "GIB",
    "HUB_NAMES",
    "KIB",
    "MACHINES",
    "SHAPES",
    "WEIGHT_BITS",
    "Cost",
    "Machine",
    "ModelShape",
    "Moments",
    "ThroughputRow",
    "active_parameters",
    "batched_seconds",
    "conversations_held",
    "experts_read",
    "experts_read_skewed",
    "kv_budget_bytes",
    "kv_bytes_per_token",
    "largest_batch",
    "model_weight_bytes",
    "num_kv_blocks",
    "per_user_tok_s",
    "prefill_seconds",
    "sequential_seconds",
    "step_seconds",
    "step_weight_bytes",
    "throughput_rows",
    "total_tok_s",
    "wait_seconds",
    "weight_bytes",
]
