"""Products of rows with the weights of their experts, a tile of one expert's rows and BLOCK_N columns in each program.

With D distinct experts among the chosen, what must be read at least is their weights, D * 3 * width * hidden numbers:
at a few rows next to nothing else, and each program's BLOCK_N whole rows of a weight are read once. With many rows it
is 6 * rows * top_k * width * hidden operations that count; tiles of the same expert then share its weights in L2.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.device_math import dot
from kernels.gated.triton_kernel import activated
from kernels.linear.triton_weight_only import accumulated

TILES_TOGETHER = tl.constexpr(8)  # that go through a weight's columns side by side


@triton.jit(do_not_specialize=["num_tiles"])
def gate_up_kernel(
    x_ptr, weight_ptr, scales_ptr, offsets_ptr, bias_ptr, pairs_ptr, tiles_ptr, y_ptr,
    num_tiles, n, hidden, width,
    TOP_K: tl.constexpr, ACTIVATION: tl.constexpr, GROUP: tl.constexpr,
    EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x [rows, hidden] to the activation of gate and up, y [places, width]; the weights of all experts have n rows.

    Gate and up rows alternate in a tile, so that a thread holds both of a column when it comes to the activation.
    """
    tile, block, expert, taken = _tile(tiles_ptr, num_tiles, 2 * width, BLOCK_N)
    if taken == 0:
        return
    offs_m, offs_n = tl.arange(0, BLOCK_M), block * BLOCK_N + tl.arange(0, BLOCK_N)
    place, there = tile.to(tl.int64) * BLOCK_M + offs_m, offs_m < taken
    row = tl.load(pairs_ptr + place, mask=there, other=0) // TOP_K

    column = tl.minimum(offs_n // 2, width - 1)
    of_expert = expert.to(tl.int64) * 2 * width
    weight_row = of_expert + column + (offs_n % 2) * width
    acc = _product(
        x_ptr, row, there, weight_ptr, scales_ptr, offsets_ptr, weight_row, n, hidden, GROUP, EVEN_K, BLOCK_K
    )
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + weight_row).to(tl.float32)[None, :]
    gate, up = tl.split(tl.reshape(acc, (BLOCK_M, BLOCK_N // 2, 2)))
    y = activated(gate, up, ACTIVATION)

    offs_y = block * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2)
    y_ptrs = y_ptr + place[:, None] * width + offs_y[None, :]
    tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=there[:, None] & (offs_y < width)[None, :])


@triton.jit(do_not_specialize=["num_tiles"])
def down_kernel(
    x_ptr, weight_ptr, scales_ptr, offsets_ptr, bias_ptr, pairs_ptr, tiles_ptr, shares_ptr, y_ptr,
    num_tiles, n, width, hidden,
    GROUP: tl.constexpr,
    EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x [places, width] to y [pairs, hidden], times what the row weighs the expert with."""
    tile, block, expert, taken = _tile(tiles_ptr, num_tiles, hidden, BLOCK_N)
    if taken == 0:
        return
    offs_m, offs_n = tl.arange(0, BLOCK_M), block * BLOCK_N + tl.arange(0, BLOCK_N)
    place, there = tile.to(tl.int64) * BLOCK_M + offs_m, offs_m < taken
    pair = tl.load(pairs_ptr + place, mask=there, other=0)

    weight_row = expert.to(tl.int64) * hidden + tl.minimum(offs_n, hidden - 1)
    acc = _product(
        x_ptr, place, there, weight_ptr, scales_ptr, offsets_ptr, weight_row, n, width, GROUP, EVEN_K, BLOCK_K
    )
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + weight_row).to(tl.float32)[None, :]
    acc *= tl.load(shares_ptr + pair, mask=there, other=0.0)[:, None]

    y_ptrs = y_ptr + pair.to(tl.int64)[:, None] * hidden + offs_n[None, :]
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=there[:, None] & (offs_n < hidden)[None, :])


@triton.jit
def sum_kernel(
    x_ptr, residual_ptr, y_ptr, hidden, TOP_K: tl.constexpr, TOP_K_PADDED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A row's products x [rows * TOP_K, hidden], and its residual, to their sum, always in the same order."""
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    nth, there = tl.arange(0, TOP_K_PADDED), column < hidden
    x_ptrs = x_ptr + (row * TOP_K + nth)[:, None] * hidden + column[None, :]
    x = tl.load(x_ptrs, mask=(nth < TOP_K)[:, None] & there[None, :], other=0.0).to(tl.float32)
    y = tl.sum(x, axis=0)
    if residual_ptr is not None:
        y += tl.load(residual_ptr + row * hidden + column, mask=there, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * hidden + column, y.to(y_ptr.dtype.element_ty), mask=there)


@triton.jit
def _tile(tiles_ptr, num_tiles, columns, BLOCK_N: tl.constexpr):
    """This program's tile and block of columns; the tile's expert, and how many of its places are taken."""
    program, blocks = tl.program_id(0), tl.cdiv(columns, BLOCK_N)
    together = program // (TILES_TOGETHER * blocks)
    within = program % (TILES_TOGETHER * blocks)
    height = tl.minimum(num_tiles - together * TILES_TOGETHER, TILES_TOGETHER)
    tile, block = together * TILES_TOGETHER + within % height, within // height
    return tile, block, tl.load(tiles_ptr + 2 * tile), tl.load(tiles_ptr + 2 * tile + 1)


@triton.jit
def _product(
    x_ptr, x_row, there, weight_ptr, scales_ptr, offsets_ptr, weight_row, n, k,
    GROUP: tl.constexpr, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """x[x_row] times weight[weight_row] transposed, in float32; rows of x that are not there are zeros."""
    if scales_ptr is None:
        acc = _plain_product(x_ptr, x_row, there, weight_ptr, weight_row, k, EVEN_K, BLOCK_K)
    else:
        no_row: tl.constexpr = 2**31 - 1
        rows = tl.where(there, x_row, no_row)
        last = tl.cdiv(k, BLOCK_K)
        acc = accumulated(
            x_ptr, weight_ptr, scales_ptr, offsets_ptr, rows, weight_row, no_row, n, k, 0, last, GROUP, EVEN_K
        )
    return acc


@triton.jit
def _plain_product(x_ptr, x_row, there, weight_ptr, weight_row, k, EVEN_K: tl.constexpr, BLOCK_K: tl.constexpr):
    acc = tl.zeros([x_row.shape[0], weight_row.shape[0]], tl.float32)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + x_row.to(tl.int64)[:, None] * k + offs_k[None, :]
    weight_ptrs = weight_ptr + weight_row[None, :] * k + offs_k[:, None]
    for first in range(0, k, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_ptrs + first, mask=there[:, None], other=0.0)
            weight = tl.load(weight_ptrs + first)
        else:
            within = offs_k < k - first
            x = tl.load(x_ptrs + first, mask=there[:, None] & within[None, :], other=0.0)
            weight = tl.load(weight_ptrs + first, mask=within[:, None], other=0.0)
        acc = dot(x, weight.to(x.dtype), acc)
    return acc
