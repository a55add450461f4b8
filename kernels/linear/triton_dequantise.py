"""Quantised weights written out as plain ones, for products of so many rows that the matrix units are the limit.

Reads n * k * bits / 8 bytes and writes n * k numbers: the larger m, the rows of x, the smaller its share of the time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.linear.product import Product, bits_of
from kernels.linear.triton_codes import factors, int4_pair
from kernels.linear.triton_weight_only import of_group, variant_of

SPAN = tl.constexpr(128)
BLOCK_N = 128


def written_out(product: Product, rows: slice) -> torch.Tensor:
    """Those rows of the product's weight as numbers of x's type [rows, k]."""
    (_, n, k), (codes, scales, offsets) = product.sizes, product.held
    count = rows.stop - rows.start
    y = product.x.new_empty(count, k)
    grid = (triton.cdiv(count, BLOCK_N), triton.cdiv(k, SPAN.value))
    dequantise_kernel[grid](bits_of(codes), scales, offsets, y, rows.start, count, n, k, product.group, BLOCK_N)
    return y


@triton.jit
def dequantise_kernel(
    codes_ptr, scales_ptr, offsets_ptr, y_ptr, first, count, n, k, GROUP: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Rows from `first` on, `count` of them, of a weight as in DeviceWeight (FP8 as uint8) to y [count, k]."""
    step = tl.program_id(1)
    places = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = first + places
    UNIT: tl.constexpr = SPAN if GROUP == 0 or GROUP > SPAN else GROUP
    if codes_ptr.dtype.element_ty == tl.int32:
        lanes = tl.arange(0, 16)
        held = (rows[:, None].to(tl.int64) + step * n) * 16 + lanes[None, :]
        words = tl.load(codes_ptr + held, mask=(places < count)[:, None], other=0)
        for pair in tl.static_range(SPAN // 32):
            low, high = int4_pair(words, pair, y_ptr.dtype.element_ty)
            columns = step * SPAN + pair * 32 + lanes
            group = 0 if GROUP == 0 else (step * SPAN + pair * 32) // GROUP
            _write(low, scales_ptr, offsets_ptr, y_ptr, group, rows, places, columns, count, n, k, GROUP)
            _write(high, scales_ptr, offsets_ptr, y_ptr, group, rows, places, columns + 16, count, n, k, GROUP)
    else:
        for unit in tl.static_range(SPAN // UNIT):
            columns = step * SPAN + unit * UNIT + tl.arange(0, UNIT)
            mask = (places < count)[:, None] & (columns < k)[None, :]
            codes = tl.load(codes_ptr + rows[:, None].to(tl.int64) * k + columns[None, :], mask=mask, other=0)
            codes = factors(codes, y_ptr.dtype.element_ty)
            group = 0 if GROUP == 0 else (step * SPAN + unit * UNIT) // GROUP
            _write(codes, scales_ptr, offsets_ptr, y_ptr, group, rows, places, columns, count, n, k, GROUP)


@triton.jit
def _write(
    codes, scales_ptr, offsets_ptr, y_ptr, group, rows, places, columns, count, n, k, GROUP: tl.constexpr
):  # fmt: skip
    """Columns of one group to the rows `places` of y."""
    groups = 1 if GROUP == 0 else tl.cdiv(k, GROUP)
    values = codes.to(tl.float32) * of_group(scales_ptr, group, rows, n, groups)[:, None]
    if offsets_ptr is not None:
        values += of_group(offsets_ptr, group, rows, n, groups)[:, None]
    mask = (places < count)[:, None] & (columns < k)[None, :]
    to = places[:, None].to(tl.int64) * k + columns[None, :]
    tl.store(y_ptr + to, values.to(y_ptr.dtype.element_ty), mask=mask)


def variants() -> list[Variant]:
    return [_variant("int4 in groups of 128", "*i32", 128), _variant("int8 in groups of 32", "*i8", 32)]


def _variant(name: str, codes: str, group: int) -> Variant:
    pointers = {"codes_ptr": codes, "scales_ptr": "*fp16", "offsets_ptr": None}
    return variant_of(name, dequantise_kernel, {"GROUP": group, "BLOCK_N": BLOCK_N}, pointers)
