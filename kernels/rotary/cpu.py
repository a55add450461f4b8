"""Records the rotation; see cpu.h for the slots."""

from __future__ import annotations

from kernels.attention.cache import LayerCache
from kernels.native.program import Buffer, Kind
from kernels.rotary.tables import HeadNorms, RotaryTables


def rotary(qkv: Buffer, tables: RotaryTables, cache: LayerCache, num_heads: int, norms: HeadNorms | None) -> Buffer:
    """Works in place: the returned buffer is the one given."""
    program = qkv.program
    program.owned.append(cache)
    pointers = [
        qkv,
        tables.cos.numpy(),
        tables.sin.numpy(),
        cache.keys.data_ptr(),
        cache.values.data_ptr(),
        norms.q.float().numpy() if norms else None,
        norms.k.float().numpy() if norms else None,
    ]
    integers = [num_heads, cache.kv_heads, cache.head_dim, cache.type_number]
    program.record(Kind.ROTARY, pointers, integers, (norms.eps if norms else 0.0,))
    return qkv
