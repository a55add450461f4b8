"""The most likely token of each row on a GPU, in two stages, so that one row keeps many SMs busy.

Reads rows * width numbers once; what the first stage leaves is 8 bytes for every BLOCK of them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor

BLOCK = 2048  # 16 numbers, two loads of bfloat16, for each of 128 threads

_INFINITY = tl.constexpr(float("inf"))


def argmax(x: DeviceTensor) -> torch.Tensor:
    """x [rows, width] to int32 [rows]; -1 where a row holds NaN or infinity."""
    rows, width = x.tensor.shape
    blocks = triton.cdiv(width, BLOCK)
    best = x.tensor.new_empty(rows, blocks, dtype=torch.float32)
    places, tokens = (x.tensor.new_empty(*shape, dtype=torch.int32) for shape in ((rows, blocks), (rows,)))
    if rows:
        _best_of_block[(rows, blocks)](x.tensor, best, places, width, blocks, BLOCK=BLOCK)
        _best_of_row[(rows,)](best, places, tokens, blocks, BLOCKS=triton.next_power_of_2(blocks))
    return tokens


@triton.jit
def _first_of_largest(x, places):
    """The largest of x and the lowest of its places."""
    best = tl.max(x, axis=0)
    return best, tl.min(tl.where(x == best, places, 0x7FFFFFFF), axis=0)


@triton.jit
def _best_of_block(x_ptr, best_ptr, place_ptr, width, blocks, BLOCK: tl.constexpr):
    """What is not finite counts as infinity at place -1, so that the second stage needs no word for it."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + offsets, mask=offsets < width, other=0.0).to(tl.float32)
    finite = tl.abs(x) < _INFINITY
    best, place = _first_of_largest(
        tl.where(finite, tl.where(offsets < width, x, -_INFINITY), _INFINITY), tl.where(finite, offsets, -1)
    )
    tl.store(best_ptr + row * blocks + block, best)
    tl.store(place_ptr + row * blocks + block, place)


@triton.jit
def _best_of_row(best_ptr, place_ptr, token_ptr, blocks, BLOCKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCKS)
    x = tl.load(best_ptr + row * blocks + offsets, mask=offsets < blocks, other=-_INFINITY)
    places = tl.load(place_ptr + row * blocks + offsets, mask=offsets < blocks, other=0x7FFFFFFF)
    _, place = _first_of_largest(x, places)
    tl.store(token_ptr + row, place)


def variants() -> list[Variant]:
    first = {"x_ptr": "*bf16", "best_ptr": "*fp32", "place_ptr": "*i32", "width": "i32", "blocks": "i32"}
    second = {"best_ptr": "*fp32", "place_ptr": "*i32", "token_ptr": "*i32", "blocks": "i32"}
    return [
        Variant("blocks", _best_of_block, first | {"BLOCK": "constexpr"}, {"BLOCK": BLOCK}, ("width",)),
        Variant("rows", _best_of_row, second | {"BLOCKS": "constexpr"}, {"BLOCKS": 128}, wide=False),
    ]
