"""Rotation of queries and keys on a GPU, and the way of keys and values into their cache, in one launch.

A program has a few heads of one row. It must move rows * (2 heads + 2 kv_heads) * head_dim numbers (queries are read
and written, keys and values read), rows * 2 kv_heads * head_dim numbers of the cache, and a row of each table.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.attention.cache import BLOCK_SIZE, LayerCache
from kernels.device import DeviceStep, DeviceTensor
from kernels.rotary.tables import HeadNorms, RotaryTables

_BLOCK_SIZE = tl.constexpr(BLOCK_SIZE)


def rotary(
    qkv: DeviceTensor,
    tables: RotaryTables,
    cache: LayerCache,
    step: DeviceStep,
    num_heads: int,
    norms: HeadNorms | None,
) -> DeviceTensor:
    """See kernels.rotary.rotary. The queries of `qkv` are rotated in place; its keys and values stay as they are."""
    x, kv_heads, head_dim = qkv.tensor, cache.kv_heads, cache.head_dim
    width, heads = tables.cos.shape[1], min(triton.next_power_of_2(num_heads), 8)
    programs = triton.cdiv(num_heads, heads) + 2 * triton.cdiv(kv_heads, heads)
    keys, values = _bytes_of_fp8(cache.keys), _bytes_of_fp8(cache.values)
    weights, eps = ((norms.q, norms.k), norms.eps) if norms else ((None, None), 0.0)
    if len(x):
        _rotary[(len(x), programs)](
            *(x, tables.cos, tables.sin, step.positions, step.slots, keys, values, *weights),
            *(num_heads, kv_heads, 1 / cache.k_scale, 1 / cache.v_scale, eps, values.stride(0), values.stride(1)),
            **_constants(heads, head_dim, width),
            num_warps=_num_warps(heads, head_dim),
        )
    return qkv


def _bytes_of_fp8(cached: torch.Tensor) -> torch.Tensor:
    """Not every GPU can convert to FP8 itself, so the kernel makes its bytes."""
    return cached.view(torch.uint8) if cached.dtype == torch.float8_e4m3fn else cached


def _num_warps(heads: int, head_dim: int) -> int:
    """Eight numbers a thread, 16 bytes of bfloat16, of each half of the heads."""
    padded: int = triton.next_power_of_2(head_dim)
    return max(heads * padded // 512, 1)


def _constants(heads: int, head_dim: int, width: int) -> dict[str, int]:
    rest = head_dim - 2 * width
    return {
        "HEADS": heads,
        "HEAD_DIM": head_dim,
        "WIDTH": width,
        "PADDED_DIM": triton.next_power_of_2(head_dim),
        "PADDED_WIDTH": triton.next_power_of_2(width),
        "PADDED_REST": triton.next_power_of_2(rest) if rest else 0,
    }


@triton.jit
def _rotary(
    qkv_ptr,
    cos_ptr,
    sin_ptr,
    position_ptr,
    slot_ptr,
    key_ptr,
    value_ptr,
    q_weight_ptr,
    k_weight_ptr,
    num_heads,
    kv_heads,
    k_factor,
    v_factor,
    eps,
    stride_block,
    stride_head,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
    PADDED_REST: tl.constexpr,
):
    row, program = tl.program_id(0), tl.program_id(1)
    q_programs, kv_programs = tl.cdiv(num_heads, HEADS), tl.cdiv(kv_heads, HEADS)
    row_ptr = qkv_ptr + row.to(tl.int64) * (num_heads + 2 * kv_heads) * HEAD_DIM
    table = tl.load(position_ptr + row) * WIDTH
    slot = tl.load(slot_ptr + row).to(tl.int64)
    place = slot // _BLOCK_SIZE * stride_block + slot % _BLOCK_SIZE * HEAD_DIM
    if program < q_programs:
        heads = (program * HEADS + tl.arange(0, HEADS))[:, None]
        queries = row_ptr + heads * HEAD_DIM
        _turn(
            *(queries, queries, heads < num_heads, cos_ptr + table, sin_ptr + table, q_weight_ptr, 1.0, eps),
            *(HEAD_DIM, WIDTH, PADDED_WIDTH, PADDED_REST),
        )
    elif slot >= 0:
        heads = ((program - q_programs) % kv_programs * HEADS + tl.arange(0, HEADS))[:, None]
        keys, there = row_ptr + (num_heads + heads) * HEAD_DIM, heads < kv_heads
        if program < q_programs + kv_programs:
            _turn(
                *(keys, key_ptr + place + heads * stride_head, there),
                *(cos_ptr + table, sin_ptr + table, k_weight_ptr, k_factor, eps),
                *(HEAD_DIM, WIDTH, PADDED_WIDTH, PADDED_REST),
            )
        else:
            dims = tl.arange(0, PADDED_DIM)[None, :]
            mask = there & (dims < HEAD_DIM)
            v = tl.load(keys + kv_heads * HEAD_DIM + dims, mask=mask, other=0.0).to(tl.float32)
            _write(value_ptr + place + heads * stride_head + dims, v * v_factor, mask)


@triton.jit
def _turn(
    from_ptrs,
    to_ptrs,
    there,
    cos_ptr,
    sin_ptr,
    weight_ptr,
    factor,
    eps,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
    PADDED_REST: tl.constexpr,
):
    """Heads [HEADS, 1] from where they are to where they belong, normalised where there is a weight, and rotated."""
    dims = tl.arange(0, PADDED_WIDTH)[None, :]
    inside = dims < WIDTH
    mask = there & inside
    a = tl.load(from_ptrs + dims, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(from_ptrs + WIDTH + dims, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + dims, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + dims, mask=inside, other=0.0)
    if PADDED_REST:
        rest_dims = tl.arange(0, PADDED_REST)[None, :] + 2 * WIDTH
        rest_mask = there & (rest_dims < HEAD_DIM)
        rest = tl.load(from_ptrs + rest_dims, mask=rest_mask, other=0.0).to(tl.float32)
    if weight_ptr is not None:
        squares = tl.sum(a * a + b * b, axis=1)
        if PADDED_REST:
            squares += tl.sum(rest * rest, axis=1)
        norm = tl.rsqrt(squares / HEAD_DIM + eps)[:, None]
        a *= norm * tl.load(weight_ptr + dims, mask=inside, other=0.0)
        b *= norm * tl.load(weight_ptr + WIDTH + dims, mask=inside, other=0.0)
        if PADDED_REST:
            rest *= norm * tl.load(weight_ptr + rest_dims, mask=rest_dims < HEAD_DIM, other=0.0)
    _write(to_ptrs + dims, (a * cos - b * sin) * factor, mask)
    _write(to_ptrs + WIDTH + dims, (b * cos + a * sin) * factor, mask)
    if PADDED_REST:
        _write(to_ptrs + rest_dims, rest * factor, rest_mask)


@triton.jit
def _write(pointers, x, mask):
    if pointers.dtype.element_ty == tl.uint8:
        tl.store(pointers, _to_e4m3(x), mask=mask)
    else:
        tl.store(pointers, x.to(pointers.dtype.element_ty), mask=mask)


@triton.jit
def _to_e4m3(x):
    """float32 to the bytes of FP8 E4M3: to the nearest, ties to even, at most 448 either way; NaN stays NaN."""
    bits = x.to(tl.int32, bitcast=True)
    size = tl.minimum(tl.abs(x), 448.0)
    size_bits = size.to(tl.int32, bitcast=True)
    # float32 has 20 more bits of mantissa, and an exponent that is 120 larger.
    normal = ((size_bits + 0x7FFFF + ((size_bits >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2^-6 a code counts steps of 2^-9, which are the last bits of 2^14 in float32.
    subnormal = (size + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(size < 0.015625, subnormal, normal)
    return (tl.where(x == x, code, 0x7F) | ((bits >> 24) & 0x80)).to(tl.uint8)


def variants() -> list[Variant]:
    return [
        _variant("bf16 cache", 128, 64, "*bf16", False),
        _variant("bf16 cache, 64 dimensions", 64, 32, "*bf16", False),
        _variant("bf16 cache, head norms", 128, 64, "*bf16", True),
        _variant("bf16 cache, half of each head turns", 128, 32, "*bf16", False),
        _variant("fp8 cache", 128, 64, "*u8", False),
    ]


def _variant(name: str, head_dim: int, width: int, cached: str, norms: bool) -> Variant:
    weight = "*fp32" if norms else "constexpr"
    integers = dict.fromkeys(("num_heads", "kv_heads", "stride_block", "stride_head"), "i32")
    floats = dict.fromkeys(("k_factor", "v_factor", "eps"), "fp32")
    kinds = {
        "qkv_ptr": "*bf16",
        **dict.fromkeys(("cos_ptr", "sin_ptr"), "*fp32"),
        **dict.fromkeys(("position_ptr", "slot_ptr"), "*i32"),
        **dict.fromkeys(("key_ptr", "value_ptr"), cached),
        **dict.fromkeys(("q_weight_ptr", "k_weight_ptr"), weight),
        **integers,
        **floats,
    }
    constants = {**_constants(8, head_dim, width), **({} if norms else {"q_weight_ptr": None, "k_weight_ptr": None})}
    signature = {name: kinds.get(name, "constexpr") for name in _rotary.arg_names}
    multiples = ("stride_block", "stride_head")
    return Variant(name, _rotary, signature, constants, multiples, _num_warps(8, head_dim))
