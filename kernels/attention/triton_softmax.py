"""FlashAttention's inner loop over paged keys and values, which the kernels of decode and prefill share.

Dao, "FlashAttention-2" (2023): scores of a tile exist in registers only. The running maximum m (of scores in units of
log2, so that exp2 serves), the total of exp2(score - m) and acc, the values weighted so, are set right when m grows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.attention.cache import BLOCK_SIZE
from kernels.device_math import dot, from_e4m3, tanh

BLOCK = tl.constexpr(BLOCK_SIZE)
LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-1e30)  # of m: where all is masked, -inf - LOWEST has an exp2, and -inf - -inf had none


@triton.jit
def begin_softmax(sinks_ptr, heads, mask, ROWS: tl.constexpr, DIM_PADDED: tl.constexpr):
    """m, total [ROWS] and acc [ROWS, DIM_PADDED] of nothing read yet: a sink is a score that comes without a value."""
    m = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if sinks_ptr is not None:
        m = tl.load(sinks_ptr + heads, mask=mask, other=0).to(tl.float32) * LOG2E
        total += 1
    return m, total, tl.zeros([ROWS, DIM_PADDED], tl.float32)


@triton.jit
def attend(
    q,  # [ROWS, DIM_PADDED], in the type to multiply in
    positions,  # [ROWS]
    m,
    total,
    acc,
    keys_ptr,  # of one KV head
    values_ptr,
    table_ptr,  # of one sequence
    begin,  # the tokens to read, [begin, end), from the start of a block on
    end,
    block_stride,
    window,
    scale,
    soft_cap,
    DIM: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """m, total and acc after the tokens [begin, end). MASKED: not every row sees all of them, or the end is ragged."""
    ROWS: tl.constexpr = q.shape[0]
    dims = tl.arange(0, q.shape[1])[None, :]
    tile = tl.arange(0, TILE)
    places_in_block = (tile % BLOCK * DIM)[:, None] + dims
    for start in range(begin, end, TILE):
        tokens = start + tile
        readable = dims < DIM
        if MASKED:  # beyond the end lies what others left, perhaps NaN, which a weight of 0 does not make harmless
            readable &= (tokens < end)[:, None]
            blocks = tl.load(table_ptr + start // BLOCK + tile // BLOCK, mask=tokens < end, other=0)
        else:
            blocks = tl.load(table_ptr + start // BLOCK + tile // BLOCK)
        places = (blocks.to(tl.int64) * block_stride)[:, None] + places_in_block

        k = widen(tl.load(keys_ptr + places, mask=readable, other=0.0), q.dtype)
        scores = dot(q, tl.trans(k), tl.zeros([ROWS, TILE], tl.float32))
        to_log2 = scale * LOG2E
        if soft_cap is not None:
            scores = soft_cap * tanh(scores * (scale / soft_cap))
            to_log2 = LOG2E
        if MASKED:
            seen = tokens[None, :] <= positions[:, None]
            if window is not None:
                seen &= tokens[None, :] > positions[:, None] - window
            scores = tl.where(seen, scores, float("-inf"))

        m_new = tl.maximum(m, tl.max(scores, axis=1) * to_log2)
        weights = tl.exp2(scores * to_log2 - m_new[:, None])
        shrink = tl.exp2(m - m_new)
        total = total * shrink + tl.sum(weights, axis=1)
        v = widen(tl.load(values_ptr + places, mask=readable, other=0.0), q.dtype)
        acc = dot(weights.to(q.dtype), v, acc * shrink[:, None])
        m = m_new
    return m, total, acc


@triton.jit
def end_softmax(acc, total, v_scale):
    """acc / total times v_scale; zeros for a row that saw nothing."""
    return acc * (v_scale / tl.where(total > 0, total, 1))[:, None]


@triton.jit
def widen(x, DTYPE: tl.constexpr):
    """Keys or values of the cache in the type to multiply in."""
    if x.dtype.primitive_bitwidth == 8:
        x = from_e4m3(x)
    return x.to(DTYPE)
