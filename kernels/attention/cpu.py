"""Records the attention; see cpu.h for the slots."""

from __future__ import annotations

from kernels.attention.cache import LayerCache
from kernels.native.program import Buffer, Kind

MAX_HEAD_DIM = 256  # as cpu.h


def attention(qkv: Buffer, cache: LayerCache, num_heads: int, scale: float) -> Buffer:
    """Raises ValueError for a head dimension that the native kernel cannot hold."""
    if cache.head_dim % 32 or cache.head_dim > MAX_HEAD_DIM:
        raise ValueError(f"head_dim {cache.head_dim}: the native kernel takes multiples of 32 up to {MAX_HEAD_DIM}")
    y = qkv.program.buffer(num_heads * cache.head_dim)
    qkv.program.owned.append(cache)
    pointers = [qkv, None, y, cache.keys.data_ptr(), cache.values.data_ptr()]
    integers = [num_heads, cache.kv_heads, cache.head_dim, cache.type_number]
    qkv.program.record(Kind.ATTENTION, pointers, integers, (scale,))
    return y
