"""y = x W^T for many rows of x, both in eight bits: int8 codes, or FP8 on a GPU whose matrix units know it.

2 m n k operations at twice the rate of bfloat16, against m * k + n * k bytes to read and m * n numbers to write: of the
bytes each tile of 128 x 128 reads 256 k, from the second-level cache if its neighbours run beside it. Activations are
rounded first, each row, or each 128 columns of it where the weight has such groups, to a scale of its own: m * k
numbers to read, as many bytes to write.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device_math import INTERPRETING, dot
from kernels.linear.product import Product, Tile
from kernels.linear.triton_weight_only import finish, of_group, variant_of

STEP_COLUMNS = 128  # a step of the product, and a group where there are some
STEP = tl.constexpr(STEP_COLUMNS)
SUPERTILE = tl.constexpr(8)  # tiles of rows that go through the same columns of y one after another, so that they share


def quantised(product: Product, tile: Tile) -> None:
    (m, n, k), (weights, weight_scales, _) = product.sizes, product.held
    codes, scales = quantise(product.x, weights.dtype, product.group)
    quantised_kernel[(triton.cdiv(m, tile.block_m), triton.cdiv(n, tile.block_n))](
        *(codes, scales, weights, weight_scales, product.bias, product.residual, product.y),
        *(m, n, k, product.y.stride(0), product.group, k % STEP_COLUMNS == 0, tile.block_m, tile.block_n),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def quantise(x: torch.Tensor, dtype: torch.dtype, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x [m, k] as codes of int8 or float8_e4m3fn [m, k] and float32 scales [k / 128, m], or [1, m] where group is 0."""
    m, k = x.shape
    codes = torch.empty_like(x, dtype=dtype)
    scales = x.new_empty(k // group if group else 1, m, dtype=torch.float32)
    largest = 127.0 if dtype == torch.int8 else 448.0
    if group:
        block_m = 16
        quantise_groups_kernel[(triton.cdiv(m, block_m), k // group)](x, codes, scales, m, k, largest, block_m)
    else:
        quantise_rows_kernel[(m,)](x, codes, scales, k, largest, min(triton.next_power_of_2(k), 2048))
    return codes, scales


@triton.jit
def quantise_rows_kernel(x_ptr, codes_ptr, scales_ptr, k, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    """x [m, k] to codes as large as LARGEST, int8 or FP8, and scales [m]: a program a row.

    What is not a number, or infinite, makes the row's scale NaN: no code could say it.
    """
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros([BLOCK], tl.float32)
    faults = tl.zeros([BLOCK], tl.float32)
    for start in range(0, k, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * k + columns, mask=columns < k, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
        faults += x * 0.0
    scale = tl.maximum(tl.max(largest), 1e-30) / LARGEST + tl.sum(faults)
    tl.store(scales_ptr + row, scale)
    for start in range(0, k, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * k + columns, mask=columns < k, other=0.0).to(tl.float32)
        tl.store(codes_ptr + row * k + columns, _rounded(x / scale, codes_ptr, LARGEST), mask=columns < k)


@triton.jit
def quantise_groups_kernel(x_ptr, codes_ptr, scales_ptr, m, k, LARGEST: tl.constexpr, BLOCK_M: tl.constexpr):
    """The same with scales [k / 128, m] for each 128 columns: a program for BLOCK_M rows of them."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * STEP + tl.arange(0, STEP)
    places, mask = rows[:, None].to(tl.int64) * k + columns[None, :], (rows < m)[:, None]
    x = tl.load(x_ptr + places, mask=mask, other=0.0).to(tl.float32)
    scales = tl.maximum(tl.max(tl.abs(x), 1), 1e-30) / LARGEST + tl.sum(x * 0.0, 1)
    tl.store(scales_ptr + tl.program_id(1) * m + rows, scales, mask=rows < m)
    tl.store(codes_ptr + places, _rounded(x / scales[:, None], codes_ptr, LARGEST), mask=mask)


@triton.jit
def _rounded(x, codes_ptr, LARGEST: tl.constexpr):
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)  # a division may round past it
    if codes_ptr.dtype.element_ty == tl.int8:
        x = tl.floor(x + 0.5)
    elif (
        INTERPRETING
    ):  # its conversion loses carries: round to four bits, or to the step of the subnormal numbers, first
        scaled = x * 1048577.0
        x = tl.where(tl.abs(x) < 0.015625, (x + 24576.0) - 24576.0, scaled - (scaled - x))
    return x.to(codes_ptr.dtype.element_ty)


@triton.jit(do_not_specialize=["m"])
def quantised_kernel(
    x_ptr, x_scales_ptr, codes_ptr, scales_ptr, bias_ptr, residual_ptr, y_ptr,
    m, n, k, y_stride,
    GROUP: tl.constexpr, WHOLE_STEPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """x [m, k] and codes [n, k] both int8 or both FP8, x_scales [m], scales [n]; with GROUP 128 instead of 0 both
    [k / 128, m or n]; bias [n]; residual and y [m, n] with rows y_stride apart. WHOLE_STEPS: k is a multiple of 128."""
    tile_m, tile_n = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), SUPERTILE)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    x_rows = x_ptr + tl.minimum(rows, m - 1)[:, None].to(tl.int64) * k
    weights = codes_ptr + tl.minimum(outputs, n - 1)[None, :].to(tl.int64) * k
    exact: tl.constexpr = codes_ptr.dtype.element_ty == tl.int8 and GROUP == 0
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32 if exact else tl.float32)
    for step in range(0, tl.cdiv(k, STEP)):
        columns = step * STEP + tl.arange(0, STEP)
        if WHOLE_STEPS:
            x = tl.load(x_rows + columns[None, :])
            codes = tl.load(weights + columns[:, None])
        else:
            x = tl.load(x_rows + columns[None, :], mask=(columns < k)[None, :], other=0.0)
            codes = tl.load(weights + columns[:, None], mask=(columns < k)[:, None], other=0.0)
        if exact:
            acc = dot(x, codes, acc)
        else:
            # The matrix units of sm_90 add FP8 up in fewer bits than float32 has: a step at a time, then here.
            part = _product(x, codes, acc)
            if GROUP != 0:
                part *= of_group(x_scales_ptr, step, rows, m, step + 1)[:, None]
                part *= of_group(scales_ptr, step, outputs, n, step + 1)[None, :]
            acc += part
    y = acc.to(tl.float32)
    if GROUP == 0:
        y *= of_group(x_scales_ptr, 0, rows, m, 1)[:, None] * of_group(scales_ptr, 0, outputs, n, 1)[None, :]
    mask = (rows < m)[:, None] & (outputs < n)[None, :]
    finish(y, bias_ptr, residual_ptr, y_ptr, rows, outputs, n, y_stride, mask)


@triton.jit
def _product(x, codes, like):
    """x @ codes in float32."""
    if codes.dtype == tl.int8:
        part = dot(x, codes, tl.zeros(like.shape, tl.int32)).to(tl.float32)
    else:
        part = dot(x, codes, tl.zeros(like.shape, tl.float32))
    return part


def variants() -> list[Variant]:
    return [
        _variant("int8, a scale for the row", "*i8", 0),
        _variant("int8 in groups of 128", "*i8", STEP_COLUMNS),
        _variant("fp8, a scale for the row", "*fp8e4nv", 0),
        _variant("fp8 in groups of 128", "*fp8e4nv", STEP_COLUMNS),
        _rounding("rows to int8", quantise_rows_kernel, {"LARGEST": 127.0, "BLOCK": 2048}, "*i8"),
        _rounding("rows to fp8", quantise_rows_kernel, {"LARGEST": 448.0, "BLOCK": 2048}, "*fp8e4nv"),
        _rounding("groups to int8", quantise_groups_kernel, {"LARGEST": 127.0, "BLOCK_M": 16}, "*i8"),
    ]


def _variant(name: str, codes: str, group: int) -> Variant:
    choices = {"GROUP": group, "WHOLE_STEPS": True, "BLOCK_M": 128, "BLOCK_N": 128}
    pointers = {"x_ptr": codes, "x_scales_ptr": "*fp32", "codes_ptr": codes, "scales_ptr": "*fp32", "bias_ptr": None}
    return variant_of(name, quantised_kernel, choices, pointers, num_warps=8, **_gpus(codes))


def _rounding(name: str, kernel: Any, choices: dict[str, Any], codes: str) -> Variant:
    pointers: dict[str, str | None] = {"codes_ptr": codes, "scales_ptr": "*fp32"}
    return variant_of(name, kernel, choices, pointers, **_gpus(codes))


def _gpus(codes: str) -> dict[str, Any]:
    return {} if codes == "*i8" else {"min_capability": 89, "backends": ("cuda",)}
