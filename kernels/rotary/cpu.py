"""Records the rotation; see cpu.h for the slots."""

from __future__ import annotations

from kernels.attention.cache import LayerCache
from kernels.native.program import Buffer, Kind
from kernels.rotary.tables import HeadNorms, RotaryTables


def rotary(qkv: Buffer, tables: RotaryTables, cache: LayerCache, num_heads: int, norms: HeadNorms | None) -> Buffer:
    """Works in place: the returned buffer is the one given. Raises ValueError for a width that is not whole vectors."""
    program, width = qkv.program, tables.cos.shape[1]
    if width % 16 or 2 * width > cache.head_dim:
        expected = f"a multiple of 32 up to head_dim, {cache.head_dim}"
        raise ValueError(f"{2 * width} dimensions of a head to rotate: the native kernel takes {expected}")
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
    integers = [num_heads, cache.kv_heads, cache.head_dim, cache.type_number, width]
    floats = (norms.eps if norms else 0.0, 1 / cache.k_scale, 1 / cache.v_scale)
    program.record(Kind.ROTARY, pointers, integers, floats)
    return qkv
