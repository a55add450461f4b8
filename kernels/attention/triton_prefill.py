"""Attention of sequences with several rows, on a GPU: chunks of prompts, and drafts that are checked.

It computes 4 * head_dim * heads * (pairs of a row and a token that it sees) operations; n rows behind c tokens are
n * c + n * (n + 1) / 2 pairs. The query heads of a KV head are rows of the same tile: a key is read once for all.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention.triton_call import Call, Tile
from kernels.attention.triton_softmax import BLOCK, attend, begin_softmax, end_softmax
from kernels.tuning import choose

FEW_ROWS = 64


def prefill(call: Call) -> None:
    """Attention of the step's sequences behind its decodes."""
    step = call.step
    starts = step.host.query_starts[step.num_decodes : step.num_sequences + 1]
    longest = int((starts[1:] - starts[:-1]).max())
    options = tiles(call.group, call.cache.head_dim, longest, amd=bool(torch.version.hip))

    def run(tile: Tile) -> torch.Tensor:
        launch(call, tile, num_tiles(int(starts[-1] - starts[0]), len(starts) - 1, tile.rows, call.group))
        return call.out

    run(choose("attention_prefill", (*call.key, options[0].rows), options, run))


def tiles(group: int, head_dim: int, longest: int, amd: bool) -> list[Tile]:
    """The likely best first, for at most `longest` rows of a sequence. Stages are as in decode. Of 256 dimensions, 128
    rows find no room in the registers of every GPU, nor 5 stages in its shared memory."""
    num_stages = 3 if amd or head_dim > 128 else 5
    least = triton.next_power_of_2(group)
    few = Tile(max(FEW_ROWS, least), 32, 4 if head_dim <= 128 else 8, num_stages)
    if longest * group <= FEW_ROWS:
        return [few]
    widths = (64, 128) if head_dim <= 64 else (64,) if head_dim <= 128 else (32,)
    many = [Tile(max(128, least), tokens, 8, num_stages) for tokens in widths]
    return [*many, few] if head_dim <= 128 else [few, *many]


def launch(call: Call, tile: Tile, count: int) -> None:
    step = call.step
    prefill_kernel[(count, call.cache.kv_heads)](
        **call.pointers(),
        starts_ptr=step.query_starts,
        sinks_ptr=call.sinks,
        out_ptr=call.out,
        first_sequence=step.num_decodes,
        num_sequences=step.num_sequences - step.num_decodes,
        **call.numbers(),
        ROWS=tile.rows,
        TILE=tile.tokens,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def num_tiles(num_rows: int, num_sequences: int, rows: int, group: int) -> int:
    """How many tiles of `rows` cover the rows of all sequences: sequence i begins with tile (its first row) / (rows of
    a tile) + i, which leaves some without work and is known without a look at each length."""
    return num_rows // (rows // group) + num_sequences


@triton.jit(do_not_specialize=["first_sequence", "num_sequences"])
def prefill_kernel(
    q_ptr,
    keys_ptr,
    values_ptr,
    positions_ptr,
    starts_ptr,  # the first row of each sequence and the end of the last
    tables_ptr,
    sinks_ptr,
    out_ptr,  # [rows, heads, DIM]
    # sizes and strides
    first_sequence,  # before it there are decodes
    num_sequences,
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
    DIM: tl.constexpr,
    DIM_PADDED: tl.constexpr,
    DTYPE: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program (tile of rows x query heads, KV head). The last rows see most and come first."""
    QUERIES: tl.constexpr = ROWS // GROUP
    kv_head = tl.program_id(1)
    sequence, first_row, end_row = _rows_of_tile(
        tl.num_programs(0) - 1 - tl.program_id(0), starts_ptr, first_sequence, num_sequences, QUERIES, AT_ONCE=64
    )
    if first_row >= end_row:
        return

    query = tl.arange(0, ROWS) // GROUP
    heads = kv_head * GROUP + tl.arange(0, ROWS) % GROUP
    rows = first_row + query
    dims = tl.arange(0, DIM_PADDED)
    used = (query < QUERIES) & (rows < end_row)
    mask = used[:, None] & (dims < DIM)[None, :]
    q = tl.load(q_ptr + (rows * row_stride + heads * DIM)[:, None] + dims[None, :], mask=mask, other=0).to(DTYPE)
    m, total, acc = begin_softmax(sinks_ptr, heads, used, ROWS, DIM_PADDED)

    position = tl.load(positions_ptr + first_row)
    begin = 0
    if window is not None:
        begin = tl.maximum(position + 1 - window, 0) // BLOCK * BLOCK
    end = position + tl.minimum(QUERIES, end_row - first_row)
    all_see = begin + (position + 1 - begin) // TILE * TILE  # whole tiles of what no row is before
    keys_ptr += kv_head * BLOCK * DIM
    values_ptr += kv_head * BLOCK * DIM
    table_ptr = tables_ptr + sequence * table_stride
    positions = position + query
    block_stride = kv_heads * BLOCK * DIM
    # fmt: off
    m, total, acc = attend(
        q, positions, m, total, acc, keys_ptr, values_ptr, table_ptr, begin, all_see, block_stride,
        window, scale, soft_cap, DIM, TILE, MASKED=window is not None,
    )
    m, total, acc = attend(
        q, positions, m, total, acc, keys_ptr, values_ptr, table_ptr, all_see, end, block_stride,
        window, scale, soft_cap, DIM, TILE, MASKED=True,
    )
    # fmt: on
    out = end_softmax(acc, total, v_scale).to(out_ptr.dtype.element_ty)
    places = (rows * (kv_heads * GROUP) + heads) * DIM
    tl.store(out_ptr + places[:, None] + dims[None, :], out, mask=mask)


@triton.jit
def _rows_of_tile(tile, starts_ptr, first_sequence, num_sequences, QUERIES: tl.constexpr, AT_ONCE: tl.constexpr):
    """The tile's sequence and its rows [first, end), as `num_tiles` counts; end <= first where it has none.
    The starts of AT_ONCE sequences are read together."""
    starts_ptr += first_sequence
    origin = tl.load(starts_ptr)
    index = -1
    for some in range(0, num_sequences, AT_ONCE):
        indices = some + tl.arange(0, AT_ONCE)
        starts = tl.load(starts_ptr + indices, mask=indices < num_sequences, other=0) - origin
        begun = (starts // QUERIES + indices <= tile) & (indices < num_sequences)
        index += tl.sum(begun.to(tl.int32), axis=0)
    start = tl.load(starts_ptr + index)
    first = start + (tile - (start - origin) // QUERIES - index) * QUERIES
    return first_sequence + index, first, tl.load(starts_ptr + index + 1)
