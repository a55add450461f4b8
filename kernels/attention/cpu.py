"""Records the attention; see cpu.h for the slots."""

from __future__ import annotations

import torch

from kernels.attention.cache import LayerCache
from kernels.native.program import Buffer, Kind

MAX_HEAD_DIM = 256  # as cpu.h
NO_WINDOW = 2**31  # more than any position


def attention(
    qkv: Buffer,
    cache: LayerCache,
    num_heads: int,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> Buffer:
    """Raises ValueError for a head dimension that the native kernel cannot hold."""
    if cache.head_dim % 32 or cache.head_dim > MAX_HEAD_DIM:
        raise ValueError(f"head_dim {cache.head_dim}: the native kernel takes multiples of 32 up to {MAX_HEAD_DIM}")
    y = qkv.program.buffer(num_heads * cache.head_dim)
    qkv.program.owned.append(cache)
    sink_logits = None if sinks is None else sinks.float().contiguous().numpy()
    pointers = [qkv, None, y, cache.keys.data_ptr(), cache.values.data_ptr(), sink_logits]
    integers = [num_heads, cache.kv_heads, cache.head_dim, cache.type_number, NO_WINDOW if window is None else window]
    qkv.program.record(Kind.ATTENTION, pointers, integers, (scale * cache.k_scale, soft_cap or 0.0, cache.v_scale))
    return y
