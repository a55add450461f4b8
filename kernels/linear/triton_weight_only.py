"""y = x W^T for few rows of x: quantised weights become factors in registers, activations stay what they are.

The weights are read once, all else stays in caches, so what must move is n * k * bits / 8 bytes of codes, (n * k /
group) scales and offsets, and m * (k + n) activations; the floor on time is that over the memory's bandwidth. Up to 16
rows of x cost what one does: a tile of the matrix units. In the code for sm_90 3.6 instructions of a thread go to a
weight of four bits (tiles of 16 x 128, groups of 128): of the 4.4 that an H100 has time for while it reads one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device_math import dot
from kernels.linear.product import Product, Tile, bits_of
from kernels.linear.triton_codes import factors, int4_pair

SPAN = tl.constexpr(128)  # columns a step: as many as pack lays together
TICKETS = 1 << 14  # more than tiles of any y that is split: there the tiles are fewer than the programs that are wanted


def weight_only(product: Product, tile: Tile) -> None:
    (m, n, k), (codes, scales, offsets), split = product.sizes, product.held, tile.split
    x, y = product.x, product.y
    partial = x.new_empty(split, m, n, dtype=torch.float32) if split > 1 else None
    tickets = _tickets(x.device) if split > 1 else None
    weight_only_kernel[(triton.cdiv(n, tile.block_n), split, triton.cdiv(m, tile.block_m))](
        *(x, bits_of(codes), scales, offsets, product.bias, product.residual, y, partial, tickets),
        *(m, n, k, y.stride(0), product.group, k % SPAN.value == 0, tile.block_m, tile.block_n, split),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


@cache
def _tickets(device: torch.device) -> torch.Tensor:
    """Zeros, which every kernel that counts on them leaves as zeros."""
    return torch.zeros(TICKETS, dtype=torch.int32, device=device)


@triton.jit(do_not_specialize=["m"])
def weight_only_kernel(
    x_ptr, codes_ptr, scales_ptr, offsets_ptr, bias_ptr, residual_ptr, y_ptr, partial_ptr, ticket_ptr,
    m, n, k, y_stride,
    GROUP: tl.constexpr, WHOLE_SPANS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """x [m, k], codes, scales and offsets as in DeviceWeight (FP8 as uint8) or plain weights without scales; bias [n];
    residual and y [m, n] with rows y_stride apart. GROUP 0: the whole row. WHOLE_SPANS: k is a multiple of SPAN.

    A tile of y is the work of SPLIT programs, each for some of the columns of x. All but the last to finish leave what
    they have in partial [SPLIT, m, n]; the last adds them up, in their order, and puts ticket [tiles] back to 0.
    """
    rows = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.cdiv(tl.cdiv(k, SPAN), SPLIT)
    first = tl.program_id(1) * steps
    last = tl.minimum(first + steps, tl.cdiv(k, SPAN))
    acc = accumulated(
        x_ptr, codes_ptr, scales_ptr, offsets_ptr, rows, outputs, m, n, k, first, last, GROUP, WHOLE_SPANS
    )
    mask = (rows < m)[:, None] & (outputs < n)[None, :]
    if SPLIT > 1:
        places = rows[:, None].to(tl.int64) * n + outputs[None, :]
        tl.store(partial_ptr + tl.program_id(1) * m * n + places, acc, mask=mask)
        tl.debug_barrier()
        tile = tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(ticket_ptr + tile, 1) == SPLIT - 1:
            acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            for split in range(SPLIT):
                acc += tl.load(partial_ptr + split * m * n + places, mask=mask, other=0.0, cache_modifier=".cg")
            tl.store(ticket_ptr + tile, 0)
            finish(acc, bias_ptr, residual_ptr, y_ptr, rows, outputs, n, y_stride, mask)
    else:
        finish(acc, bias_ptr, residual_ptr, y_ptr, rows, outputs, n, y_stride, mask)


@triton.jit
def accumulated(
    x_ptr, codes_ptr, scales_ptr, offsets_ptr, rows, outputs, m, n, k, first, last,
    GROUP: tl.constexpr, WHOLE_SPANS: tl.constexpr,
):  # fmt: skip
    """What the spans of columns from `first` to before `last` give, scaled; zeros for rows that are not below m."""
    acc = tl.zeros([rows.shape[0], outputs.shape[0]], tl.float32)
    sums = tl.zeros_like(acc)
    for step in range(first, last):
        if codes_ptr.dtype.element_ty == tl.int32:
            acc, sums = _packed_step(
                x_ptr, codes_ptr, scales_ptr, offsets_ptr, acc, sums, rows, outputs, step, m, n, k, GROUP, WHOLE_SPANS
            )
        else:
            acc, sums = _plain_step(
                x_ptr, codes_ptr, scales_ptr, offsets_ptr, acc, sums, rows, outputs, step, m, n, k, GROUP, WHOLE_SPANS
            )
    if GROUP == 0 and scales_ptr is not None:
        acc *= of_group(scales_ptr, 0, outputs, n, 1)[None, :]
        if offsets_ptr is not None:
            acc += sums * of_group(offsets_ptr, 0, outputs, n, 1)[None, :]
    return acc


@triton.jit
def _packed_step(
    x_ptr, codes_ptr, scales_ptr, offsets_ptr, acc, sums, rows, outputs, step, m, n, k,
    GROUP: tl.constexpr, WHOLE_SPANS: tl.constexpr,
):  # fmt: skip
    """A span of columns with codes of four bits."""
    UNIT: tl.constexpr = SPAN if GROUP == 0 or GROUP > SPAN else GROUP
    lanes = tl.arange(0, 16)
    places = (tl.minimum(outputs, n - 1)[None, :].to(tl.int64) + step * n) * 16 + lanes[:, None]
    words = tl.load(codes_ptr + places)
    for unit in tl.static_range(SPAN // UNIT):
        column = step * SPAN + unit * UNIT
        part, scales, offsets = _begin(acc, scales_ptr, offsets_ptr, column, outputs, n, k, GROUP)
        sums = sums if GROUP == 0 else tl.zeros_like(sums)
        for pair in tl.static_range(unit * UNIT // 32, (unit + 1) * UNIT // 32):
            low, high = int4_pair(words, pair, x_ptr.dtype.element_ty)
            columns = step * SPAN + pair * 32 + lanes
            x = _activations(x_ptr, rows, columns, m, k, WHOLE_SPANS)
            x_next = _activations(x_ptr, rows, columns + 16, m, k, WHOLE_SPANS)
            part = dot(x, low, part)
            part = dot(x_next, high, part)
            if offsets_ptr is not None:
                sums = _summed(x, low, sums)
                sums = _summed(x_next, high, sums)
        acc = _end(acc, part, sums, scales, offsets, GROUP, offsets_ptr is not None)
    return acc, sums


@triton.jit
def _plain_step(
    x_ptr, codes_ptr, scales_ptr, offsets_ptr, acc, sums, rows, outputs, step, m, n, k,
    GROUP: tl.constexpr, WHOLE_SPANS: tl.constexpr,
):  # fmt: skip
    """A span of columns with codes of eight bits, or plain weights."""
    UNIT: tl.constexpr = SPAN if GROUP == 0 or GROUP > SPAN else GROUP
    weights = codes_ptr + tl.minimum(outputs, n - 1)[None, :].to(tl.int64) * k
    for unit in tl.static_range(SPAN // UNIT):
        column = step * SPAN + unit * UNIT
        part, scales, offsets = _begin(acc, scales_ptr, offsets_ptr, column, outputs, n, k, GROUP)
        columns = column + tl.arange(0, UNIT)
        if WHOLE_SPANS:
            codes = tl.load(weights + columns[:, None])
        else:
            codes = tl.load(weights + columns[:, None], mask=(columns < k)[:, None], other=0)
        x = _activations(x_ptr, rows, columns, m, k, WHOLE_SPANS)
        codes = factors(codes, x_ptr.dtype.element_ty)
        part = dot(x, codes, part)
        if offsets_ptr is not None:
            sums = _summed(x, codes, sums if GROUP == 0 else tl.zeros_like(sums))
        acc = _end(acc, part, sums, scales, offsets, GROUP, offsets_ptr is not None)
    return acc, sums


@triton.jit
def _begin(acc, scales_ptr, offsets_ptr, column, outputs, n, k, GROUP: tl.constexpr):
    """Where a group's products are added up, and its scales and offsets, asked for before they are needed."""
    part = acc
    scales = 0.0
    offsets = 0.0
    if GROUP != 0:
        part = tl.zeros_like(acc)
        scales = of_group(scales_ptr, column // GROUP, outputs, n, tl.cdiv(k, GROUP))
        if offsets_ptr is not None:
            offsets = of_group(offsets_ptr, column // GROUP, outputs, n, tl.cdiv(k, GROUP))
    return part, scales, offsets


@triton.jit
def _end(acc, part, sums, scales, offsets, GROUP: tl.constexpr, OFFSETS: tl.constexpr):
    """A group's products are done: of sum(x * (scale * code + offset)) the scale and the offset stand before sums."""
    if GROUP == 0:
        acc = part
    else:
        acc += part * scales[None, :]
        if OFFSETS:
            acc += sums * offsets[None, :]
    return acc


@triton.jit
def _summed(x, like, sums):
    """sums + the sum of each row of x, in every column: as a product it needs no exchange between threads."""
    ones = tl.full([like.shape[0], like.shape[1]], 1.0, tl.float32).to(like.dtype)
    return dot(x, ones, sums)


@triton.jit
def of_group(ptr, group, outputs, n, groups):
    """The scales or offsets of a group; those of columns past the last are not there."""
    return tl.load(ptr + group * n + outputs, mask=(outputs < n) & (group < groups), other=0.0).to(tl.float32)


@triton.jit
def _activations(x_ptr, rows, columns, m, k, WHOLE_SPANS: tl.constexpr):
    mask = (rows < m)[:, None]
    if not WHOLE_SPANS:
        mask = mask & (columns < k)[None, :]
    return tl.load(x_ptr + rows[:, None].to(tl.int64) * k + columns[None, :], mask=mask, other=0.0)


@triton.jit
def finish(acc, bias_ptr, residual_ptr, y_ptr, rows, outputs, n, y_stride, mask):
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + outputs, mask=outputs < n, other=0.0).to(tl.float32)[None, :]
    places = rows[:, None].to(tl.int64) * y_stride + outputs[None, :]
    if residual_ptr is not None:
        acc += tl.load(residual_ptr + places, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + places, acc.to(y_ptr.dtype.element_ty), mask=mask)


def variants() -> list[Variant]:
    return [
        _variant("int4 in groups of 128", "*i32", 128),
        _variant("int4 in groups of 128, wide", "*i32", 128, block_n=128),
        _variant("int4 in groups of 128, 64 rows", "*i32", 128, block_m=64),
        _variant(
            "int4 in groups of 128, 64 rows, wide", "*i32", 128, block_m=64, block_n=128, num_warps=8, num_stages=3
        ),
        _variant("int4 in groups of 32, with offsets", "*i32", 32, offsets="*fp32"),
        _variant("int4, a scale for the row", "*i32", 0),
        _variant("int8 in groups of 32", "*i8", 32),
        _variant("int8, a scale for the row", "*i8", 0),
        _variant("fp8 in groups of 128", "*u8", 128),
        _variant("fp8, a scale for the row", "*u8", 0),
        _variant("plain", "*bf16", 0, scales=None),
    ]


def _variant(
    name: str,
    codes: str,
    group: int,
    block_m: int = 16,
    block_n: int = 64,
    scales: str | None = "*fp16",
    offsets: str | None = None,
    num_warps: int = 4,
    num_stages: int = 4,
) -> Variant:
    choices = {"GROUP": group, "WHOLE_SPANS": True, "BLOCK_M": block_m, "BLOCK_N": block_n, "SPLIT": 4}
    pointers = {"codes_ptr": codes, "scales_ptr": scales, "offsets_ptr": offsets, "bias_ptr": None}
    pointers |= {"partial_ptr": "*fp32", "ticket_ptr": "*i32"}
    return variant_of(name, weight_only_kernel, choices, pointers, num_warps=num_warps, num_stages=num_stages)


def variant_of(
    name: str, kernel: Any, choices: dict[str, Any], pointers: dict[str, str | None], **others: Any
) -> Variant:
    """A kernel of which the pointers that are not named point to bfloat16 and the rest are integers."""
    constants = choices | {argument: None for argument, kind in pointers.items() if kind is None}
    signature = {
        argument: pointers.get(argument) or ("*bf16" if argument.endswith("_ptr") else "i32")
        for argument in kernel.arg_names
    } | dict.fromkeys(constants, "constexpr")
    return Variant(name, kernel, signature, constants, ("n", "k", "y_stride"), **others)
