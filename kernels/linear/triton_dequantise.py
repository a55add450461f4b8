"""Quantised weights written out as plain ones, for products of so many rows that the matrix units are the limit.

Reads n * k * bits / 8 bytes and writes n * k numbers: the larger m, the rows of x, the smaller its share of the time.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.linear.triton_codes import factors, int4_pair

SPAN = tl.constexpr(128)


@triton.jit
def dequantise_kernel(
    codes_ptr, scales_ptr, offsets_ptr, y_ptr, first, count, n, k, GROUP: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Rows from `first` on, `count` of them, of a weight as in DeviceWeight (FP8 as uint8) to y [count, k]."""
    step = tl.program_id(1)
    places = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside, rows = places < count, first + places
    if codes_ptr.dtype.element_ty == tl.int32:
        lanes = tl.arange(0, 16)
        at = (rows[:, None].to(tl.int64) + step * n) * 16 + lanes[None, :]
        words = tl.load(codes_ptr + at, mask=inside[:, None], other=0)
        for pair in tl.static_range(SPAN // 32):
            low, high = int4_pair(words, pair, y_ptr.dtype.element_ty)
            column = step * SPAN + pair * 32
            _write(low, scales_ptr, offsets_ptr, y_ptr, rows, places, inside, column + lanes, n, k, GROUP)
            _write(high, scales_ptr, offsets_ptr, y_ptr, rows, places, inside, column + 16 + lanes, n, k, GROUP)
    else:
        columns = step * SPAN + tl.arange(0, SPAN)
        mask = inside[:, None] & (columns < k)[None, :]
        codes = tl.load(codes_ptr + rows[:, None].to(tl.int64) * k + columns[None, :], mask=mask, other=0)
        codes = factors(codes, y_ptr.dtype.element_ty)
        _write(codes, scales_ptr, offsets_ptr, y_ptr, rows, places, inside, columns, n, k, GROUP)


@triton.jit
def _write(codes, scales_ptr, offsets_ptr, y_ptr, rows, places, inside, columns, n, k, GROUP: tl.constexpr):
    mask = inside[:, None] & (columns < k)[None, :]
    at = rows[:, None] if GROUP == 0 else (columns // GROUP)[None, :] * n + rows[:, None]
    values = codes.to(tl.float32) * tl.load(scales_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if offsets_ptr is not None:
        values += tl.load(offsets_ptr + at, mask=mask, other=0.0).to(tl.float32)
    to = places[:, None].to(tl.int64) * k + columns[None, :]
    tl.store(y_ptr + to, values.to(y_ptr.dtype.element_ty), mask=mask)
