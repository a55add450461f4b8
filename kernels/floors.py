"""What an op must at least move and compute, on paper: each input read once, each output written once, nothing between.

Pure functions of sizes. `itemsize` is the bytes of an activation's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Work(NamedTuple):
    """bytes to and from the GPU's memory; operations: two for each multiplication with its addition, those of products
    alone."""

    bytes: int
    operations: int = 0


def rms_norm(rows: int, width: int, itemsize: int, residual: bool) -> Work:
    return Work(rows * width * itemsize * (3 if residual else 2) + width * 4)


def gated(rows: int, width: int, itemsize: int) -> Work:
    """width: of the result."""
    return Work(rows * width * itemsize * 3)


def soft_cap(rows: int, width: int, itemsize: int) -> Work:
    return Work(rows * width * itemsize * 2)


def rotary(rows: int, heads: int, kv_heads: int, head_dim: int, itemsize: int, cache_itemsize: int) -> Work:
    """Reads q, k, v and a row of cosines and sines; writes q, and k and v to the cache."""
    read = (heads + 2 * kv_heads) * itemsize + 4
    written = heads * itemsize + 2 * kv_heads * cache_itemsize
    return Work(rows * head_dim * (read + written))


def attention(
    contexts: Sequence[int],
    rows: Sequence[int],
    heads: int,
    kv_heads: int,
    head_dim: int,
    itemsize: int,
    cache_itemsize: int,
) -> Work:
    """Sequences of `contexts` tokens, of which the last `rows` are asked for; the causal half alone is computed."""
    cached = sum(contexts) * 2 * kv_heads * head_dim * cache_itemsize
    activations = sum(rows) * 2 * heads * head_dim * itemsize
    seen = sum(n * (context - n) + n * (n + 1) // 2 for context, n in zip(contexts, rows, strict=True))
    return Work(cached + activations, 4 * heads * head_dim * seen)


def linear(rows: int, n: int, k: int, weight_bytes: int, itemsize: int) -> Work:
    return Work(weight_bytes + rows * (n + k) * itemsize, 2 * rows * n * k)


def moe(rows: int, hidden: int, width: int, top_k: int, experts: int, expert_bytes: int, itemsize: int) -> Work:
    """experts: how many are chosen by any row; width: of an expert's intermediate."""
    return Work(experts * expert_bytes + 2 * rows * hidden * itemsize, 2 * 3 * rows * top_k * hidden * width)


def one_token_each(rows: int, vocabulary: int, itemsize: int) -> Work:
    """A token chosen for each row of logits, whatever the way."""
    return Work(rows * (vocabulary * itemsize + 4))


def block_copy(blocks: int, block_bytes: int) -> Work:
    return Work(2 * blocks * block_bytes)
