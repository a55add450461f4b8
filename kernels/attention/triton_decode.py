"""Attention of sequences that have one row each, on a GPU: flash-decoding, a sequence's tokens split over programs.

What it must move is the cache: 2 * kv_heads * head_dim * tokens * bytes of a number, once, whatever the number of query
heads. Each number takes part in heads / kv_heads multiplications and additions, so memory is the limit on every GPU.
Splitting adds 2 * 4 * heads * (head_dim + 1) * splits bytes a sequence, which the GPU's cache holds.
"""

from __future__ import annotations

import math
from functools import cache

import torch
import triton
import triton.language as tl

from kernels.attention.cache import BLOCK_SIZE
from kernels.attention.triton_call import Call, Tile
from kernels.attention.triton_softmax import BLOCK, LOG2E, LOWEST, attend, begin_softmax, end_softmax

MAX_SPLITS = 128
PROGRAMS_PER_MULTIPROCESSOR = 2


def decode(call: Call) -> None:
    """Attention of the step's decodes. The grid follows from sizes that the host knows, so that a graph may hold it.

    The tile is not tuned: what comes first, and is recorded, are decodes that only fill up a batch and read nothing.
    """
    sequences, kv_heads = call.step.num_decodes, call.cache.kv_heads
    longest = call.step.block_tables.shape[1] * BLOCK_SIZE
    if call.window is not None:
        longest = min(longest, call.window + BLOCK_SIZE)
    tile = tile_of(call.group, call.cache.head_dim, amd=bool(torch.version.hip))
    slots = PROGRAMS_PER_MULTIPROCESSOR * multiprocessors(call.q.device)
    launch(call, tile, num_splits(sequences * kv_heads, slots, -(-longest // tile.tokens)))


def tile_of(group: int, head_dim: int, amd: bool) -> Tile:
    """Matrix instructions take 16 rows at least. A stage is either the look into the block table or the keys and values
    that it leads to, so that 5 stages keep two tiles on their way; for 3, which keep one, AMD's 64 KiB of local memory
    suffice."""
    return Tile(max(16, triton.next_power_of_2(group)), 64 if head_dim <= 128 else 32, 4, 3 if amd else 5)


def launch(call: Call, tile: Tile, splits: int) -> None:
    heads, dim, sequences = call.num_heads, call.cache.head_dim, call.step.num_decodes
    out, sums = call.out, None
    if splits > 1:
        out = torch.empty(sequences, heads, splits, dim, dtype=torch.float32, device=call.q.device)
        sums = torch.empty(sequences, heads, splits, dtype=torch.float32, device=call.q.device)
    numbers = call.numbers()
    decode_kernel[(sequences, call.cache.kv_heads, splits)](
        **call.pointers(),
        slots_ptr=call.step.slots,
        sinks_ptr=call.sinks if sums is None else None,
        out_ptr=out,
        sums_ptr=sums,
        **numbers,
        GROUP_PADDED=tile.rows,
        TILE=tile.tokens,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    if sums is not None:
        merge_kernel[(sequences, heads)](
            partial_ptr=out,
            sums_ptr=sums,
            positions_ptr=call.step.positions,
            slots_ptr=call.step.slots,
            sinks_ptr=call.sinks,
            out_ptr=call.out,
            splits=splits,
            **{name: numbers[name] for name in ("window", "DIM", "DIM_PADDED")},
            SPLITS_PADDED=triton.next_power_of_2(splits),
            TILE=tile.tokens,
            num_warps=warps_to_merge(splits, dim),
        )


def warps_to_merge(splits: int, head_dim: int) -> int:
    """So many that a thread holds 64 numbers at most."""
    return min(max(splits * head_dim // 2048, 1), 8)


@cache
def multiprocessors(device: torch.device) -> int:
    """The interpreter runs one program after another."""
    return 1 if device.type == "cpu" else int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def num_splits(programs: int, slots: int, most_tiles: int) -> int:
    """How many programs share a sequence's tokens, where without splitting there are `programs` and the GPU runs
    `slots` at a time: the fewest with which its waves are nearly as full as they can be (after FlashAttention's
    num_splits_heuristic), and no more than the longest sequence that may come has tiles."""
    most = min(most_tiles, MAX_SPLITS)
    if programs * most <= slots:
        return most
    if programs >= 0.8 * slots:
        return 1
    waves = [programs * splits / slots for splits in range(1, most + 1)]
    full = [each / math.ceil(each) for each in waves]
    return 1 + next(place for place, each in enumerate(full) if each >= 0.85 * max(full))


@triton.jit
def decode_kernel(
    q_ptr,
    keys_ptr,
    values_ptr,
    positions_ptr,
    slots_ptr,
    tables_ptr,
    sinks_ptr,  # None: no sinks, or they are for merge_kernel
    out_ptr,  # [rows, heads, splits, DIM]
    sums_ptr,  # [rows, heads, splits]: log2 of the sum of exp2(scores); None: there is one split
    # sizes and strides
    kv_heads,
    row_stride,
    table_stride,
    # numbers
    window,
    scale,
    soft_cap,
    v_scale,
    # meta-parameters
    GROUP: tl.constexpr,
    GROUP_PADDED: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PADDED: tl.constexpr,
    DTYPE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program (sequence, KV head, split): all query heads of the KV head read each token together."""
    sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    splits = tl.num_programs(2)
    begin, end = _tokens_seen(positions_ptr, slots_ptr, sequence, window)
    share = _tokens_of_a_split(begin, end, splits, TILE)
    begin += split * share
    if sums_ptr is not None and begin >= end:
        return

    group = tl.arange(0, GROUP_PADDED)
    heads = kv_head * GROUP + group
    dims = tl.arange(0, DIM_PADDED)
    mask = (group < GROUP)[:, None] & (dims < DIM)[None, :]
    q = tl.load(q_ptr + sequence * row_stride + heads[:, None] * DIM + dims[None, :], mask=mask, other=0).to(DTYPE)
    m, total, acc = begin_softmax(sinks_ptr, heads, group < GROUP, GROUP_PADDED, DIM_PADDED)
    m, total, acc = attend(
        q,
        tl.zeros_like(group) + end - 1,
        m,
        total,
        acc,
        keys_ptr + kv_head * BLOCK * DIM,
        values_ptr + kv_head * BLOCK * DIM,
        tables_ptr + sequence * table_stride,
        begin,
        tl.minimum(end, begin + share),
        kv_heads * BLOCK * DIM,
        window,
        scale,
        soft_cap,
        DIM,
        TILE,
        MASKED=True,
    )
    places = (sequence * kv_heads * GROUP + heads) * splits + split
    out = end_softmax(acc, total, v_scale)
    tl.store(out_ptr + places[:, None] * DIM + dims[None, :], out.to(out_ptr.dtype.element_ty), mask=mask)
    if sums_ptr is not None:
        tl.store(sums_ptr + places, m + tl.log2(total), mask=group < GROUP)


@triton.jit(do_not_specialize=["splits"])
def merge_kernel(
    partial_ptr,  # [rows, heads, splits, DIM]
    sums_ptr,  # [rows, heads, splits]
    positions_ptr,
    slots_ptr,
    sinks_ptr,
    out_ptr,  # [rows, heads, DIM]
    splits,
    window,
    DIM: tl.constexpr,
    DIM_PADDED: tl.constexpr,
    SPLITS_PADDED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program (sequence, head): the splits' results, each weighted with its share in the sum. Those that had nothing to
    read wrote nothing."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    begin, end = _tokens_seen(positions_ptr, slots_ptr, sequence, window)
    used = tl.cdiv(end - begin, _tokens_of_a_split(begin, end, splits, TILE))
    split = tl.arange(0, SPLITS_PADDED)
    dims = tl.arange(0, DIM_PADDED)
    place = sequence * tl.num_programs(1) + head
    sums = tl.load(sums_ptr + place * splits + split, mask=split < used, other=float("-inf"))
    mask = (split < used)[:, None] & (dims < DIM)[None, :]
    partial = tl.load(partial_ptr + (place * splits + split)[:, None] * DIM + dims[None, :], mask=mask, other=0)
    m = tl.maximum(tl.max(sums, axis=0), LOWEST)
    if sinks_ptr is not None:
        sink = tl.load(sinks_ptr + head).to(tl.float32) * LOG2E
        m = tl.maximum(m, sink)
    weights = tl.exp2(sums - m)
    total = tl.sum(weights, axis=0)
    if sinks_ptr is not None:
        total += tl.exp2(sink - m)
    out = tl.sum(partial * weights[:, None], axis=0) / tl.where(total > 0, total, 1)
    tl.store(out_ptr + place * DIM + dims, out.to(out_ptr.dtype.element_ty), mask=dims < DIM)


@triton.jit
def _tokens_seen(positions_ptr, slots_ptr, row, window):
    """[begin, end), from the start of a block on; none where the row only fills up the batch."""
    end = tl.load(positions_ptr + row) + 1
    end = tl.where(tl.load(slots_ptr + row) < 0, 0, end)
    begin = 0
    if window is not None:
        begin = tl.maximum(end - window, 0) // BLOCK * BLOCK
    return begin, end


@triton.jit
def _tokens_of_a_split(begin, end, splits, TILE: tl.constexpr):
    """Whole tiles, at least one; the last splits may be left without."""
    return tl.maximum(tl.cdiv(tl.cdiv(end - begin, TILE), splits), 1) * TILE
