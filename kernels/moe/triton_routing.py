"""Routing on a GPU: which experts a row passes through, and its places in tiles of BLOCK_M rows of one expert each.

Each expert with rows begins a tile, so a tile reads the weights of one expert. What lies where depends on the logits,
but how much memory that takes at most does not, so that a CUDA graph can hold it and the host never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant

ROWS_AT_ONCE = 32  # of one program; as many rows as one program can take are routed in one launch
TILES_AT_ONCE = tl.constexpr(32)
BLOCKS_AT_ONCE = tl.constexpr(32)


@dataclass(frozen=True, slots=True)
class Routes:
    """pairs [max_tiles * block_m] int32: row * top_k + n, for a place whose row has the place's expert n-th best.
    tiles [max_tiles, 2] int32: a tile's expert, and how many of its places, the first ones, are taken.
    weights [rows * top_k] float32."""

    pairs: torch.Tensor
    tiles: torch.Tensor
    weights: torch.Tensor
    block_m: int

    @property
    def max_tiles(self) -> int:
        return len(self.tiles)


def max_tiles(pairs: int, count: int, block_m: int) -> int:
    """What the tiles of `count` experts can be at most, where all of them share `pairs` rows."""
    with_rows = min(pairs, count)
    return with_rows + (pairs - with_rows) // block_m


def route(logits: torch.Tensor, top_k: int, normalised: bool, block_m: int) -> Routes:
    """logits [rows, experts], one row at least."""
    rows, count = logits.shape
    pairs, tiles = rows * top_k, max_tiles(rows * top_k, count, block_m)
    shape, warps = _shape(rows, count, top_k, block_m)
    blocks = triton.cdiv(rows, shape["ROWS"])
    shared = 0 if blocks == 1 else 1  # what only several blocks need to tell each other

    def integers(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=torch.int32, device=logits.device)

    weights = torch.empty(pairs, dtype=torch.float32, device=logits.device)
    routes = Routes(integers(tiles * block_m), integers(tiles, 2), weights, block_m)
    between = integers(shared * pairs), integers(shared * blocks, shape["COUNT_PADDED"])
    places = (routes.pairs, routes.tiles, rows, tiles)
    choose_kernel[(blocks,)](
        logits, weights, *between, *places, **shape, NORMALISED=normalised, ALONE=blocks == 1, num_warps=warps
    )
    if blocks > 1:
        place_kernel[(blocks,)](*between, *places, blocks, **shape, num_warps=warps)
    return routes


def _shape(rows: int, count: int, top_k: int, block_m: int) -> tuple[dict[str, Any], int]:
    """The constants of both kernels, and their warps."""
    block, padded = min(triton.next_power_of_2(rows), ROWS_AT_ONCE), triton.next_power_of_2(count)
    shape = {"COUNT": count, "COUNT_PADDED": padded, "TOP_K": top_k, "ROWS": block, "BLOCK_M": block_m}
    return shape, min(max(block * padded // 512, 1), 8)


def routing_variants(rows: int, count: int, top_k: int) -> list[Variant]:
    """The kernels that route this many rows."""
    shape, warps = _shape(rows, count, top_k, block_m=16)
    alone = rows <= ROWS_AT_ONCE
    wanted = [("choose", choose_kernel, {**shape, "NORMALISED": True, "ALONE": alone})]
    wanted += [] if alone else [("place", place_kernel, shape)]
    return [
        Variant(
            name=f"{name}, {top_k} of {count} for {rows} rows",
            kernel=kernel,
            signature=signature(kernel, constants, weights_ptr="*fp32", logits_ptr="*bf16", other="*i32"),
            constants=constants,
            num_warps=warps,
            wide=False,  # a few bytes a row
        )
        for name, kernel, constants in wanted
    ]


def signature(kernel: Any, constants: dict[str, Any], other: str = "*bf16", **pointers: str) -> dict[str, str]:
    """As Variant asks for: pointers are of the `other` type where they are not named."""
    return {
        name: "constexpr" if name in constants else pointers.get(name, other if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }


@triton.jit(do_not_specialize=["rows", "max_tiles"])
def choose_kernel(
    logits_ptr,
    weights_ptr,
    chosen_ptr,
    counts_ptr,
    pairs_ptr,
    tiles_ptr,
    rows,
    max_tiles,
    COUNT: tl.constexpr,
    COUNT_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    ROWS: tl.constexpr,
    NORMALISED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    ALONE: tl.constexpr,
):
    """A block of rows chooses; where it is the only one, it also finds its places."""
    block = tl.program_id(0)
    row, expert = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COUNT_PADDED)
    # Rows past the last one do as that one does, but write nothing.
    offsets = tl.minimum(row, rows - 1)[:, None] * COUNT + expert[None, :]
    logits = tl.load(logits_ptr + offsets, mask=(expert < COUNT)[None, :], other=float("-inf")).to(tl.float32)
    nth = _choose(logits, expert, COUNT, TOP_K)
    taken = (nth >= 0) & (row < rows)[:, None]

    shares = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    total = tl.sum(tl.where(nth >= 0, shares, 0.0) if NORMALISED else shares, axis=1)
    weights = shares / total[:, None]
    pair = row[:, None] * TOP_K + nth
    tl.store(weights_ptr + pair, weights, mask=taken)

    counts = tl.sum(taken.to(tl.int32), axis=0)
    if ALONE:
        _place(pairs_ptr, tiles_ptr, pair, taken, expert, counts, tl.zeros_like(counts), max_tiles, BLOCK_M)
    else:
        tl.store(chosen_ptr + pair, tl.broadcast_to(expert[None, :], pair.shape), mask=taken)
        tl.store(counts_ptr + block * COUNT_PADDED + expert, counts)


@triton.jit(do_not_specialize=["rows", "max_tiles", "blocks"])
def place_kernel(
    chosen_ptr,
    counts_ptr,
    pairs_ptr,
    tiles_ptr,
    rows,
    max_tiles,
    blocks,
    COUNT: tl.constexpr,
    COUNT_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """A block of rows finds its places: behind those of the blocks before, which each program sums up for itself."""
    block = tl.program_id(0)
    row, expert = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COUNT_PADDED)
    nth = tl.full([ROWS, COUNT_PADDED], -1, tl.int32)
    for n in range(TOP_K):
        chosen = tl.load(chosen_ptr + row * TOP_K + n, mask=row < rows, other=-1)
        nth = tl.where(chosen[:, None] == expert[None, :], n, nth)

    counts, before = tl.zeros([COUNT_PADDED], tl.int32), tl.zeros([COUNT_PADDED], tl.int32)
    for first in range(0, blocks, BLOCKS_AT_ONCE):
        others = first + tl.arange(0, BLOCKS_AT_ONCE)
        offsets = others[:, None] * COUNT_PADDED + expert[None, :]
        theirs = tl.load(counts_ptr + offsets, mask=(others < blocks)[:, None], other=0)
        counts += tl.sum(theirs, axis=0)
        before += tl.sum(tl.where((others < block)[:, None], theirs, 0), axis=0)
    pair = row[:, None] * TOP_K + nth
    _place(pairs_ptr, tiles_ptr, pair, nth >= 0, expert, counts, before, max_tiles, BLOCK_M)


@triton.jit
def _choose(logits, expert, COUNT: tl.constexpr, TOP_K: tl.constexpr):
    """Which choice of its row an expert is, from 0; -1: none. [rows, experts]

    A logit's bits become an integer of the same order, with what is not a number above all; below it the expert's
    number, so that one maximum finds the largest logit's lowest expert.
    """
    bits = tl.where(logits == 0, 0.0, logits).to(tl.int32, bitcast=True)  # 0 and -0 are equal
    order = tl.where(logits == logits, tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits), 0x7FFFFFFF)
    least: tl.constexpr = -(2**63)
    keys = tl.where((expert < COUNT)[None, :], (order.to(tl.int64) << 32) - expert[None, :], least)
    nth = tl.full(logits.shape, -1, tl.int32)
    for n in range(TOP_K):
        best = keys == tl.max(keys, axis=1)[:, None]
        nth = tl.where(best, n, nth)
        keys = tl.where(best, least, keys)
    return nth


@triton.jit
def _place(pairs_ptr, tiles_ptr, pair, taken, expert, counts, before, max_tiles, BLOCK_M: tl.constexpr):
    """Writes the pairs [rows, experts] of a block, `before` of them lie before in their experts, and some tiles."""
    tiles = (counts + BLOCK_M - 1) // BLOCK_M
    ends = tl.cumsum(tiles, axis=0)
    starts = ends - tiles
    within = tl.cumsum(taken.to(tl.int32), axis=0) - 1
    places = (starts * BLOCK_M + before)[None, :] + within
    tl.store(pairs_ptr + places, pair, mask=taken)

    step = tl.num_programs(0) * TILES_AT_ONCE
    for first in range(tl.program_id(0) * TILES_AT_ONCE, max_tiles, step):
        tile = first + tl.arange(0, TILES_AT_ONCE)
        owner = tl.sum((ends[None, :] <= tile[:, None]).to(tl.int32), axis=1)
        left = counts[None, :] - (tile[:, None] - starts[None, :]) * BLOCK_M
        left = tl.sum(tl.where(expert[None, :] == owner[:, None], left, 0), axis=1)
        tl.store(tiles_ptr + 2 * tile, owner, mask=tile < max_tiles)
        tl.store(tiles_ptr + 2 * tile + 1, tl.minimum(left, BLOCK_M), mask=tile < max_tiles)
