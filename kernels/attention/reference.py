"""The truth: gather each sequence's blocks, then plain softmax attention in float32."""

from __future__ import annotations

import torch

from kernels.attention.cache import BLOCK_SIZE, LayerCache
from kernels.native.program import StepArrays


def attention(qkv: torch.Tensor, cache: LayerCache, step: StepArrays, num_heads: int, scale: float) -> torch.Tensor:
    """qkv [rows, (heads + 2 kv_heads) * head_dim], q rotated; returns [rows, heads * head_dim]."""
    dim = cache.head_dim
    q = qkv[:, : num_heads * dim].view(-1, num_heads, dim)
    out = torch.empty_like(q)
    for sequence in range(step.struct.num_sequences):
        first, last = (int(start) for start in step.query_starts[sequence : sequence + 2])
        positions = torch.from_numpy(step.positions[first:last])
        length = int(positions[-1]) + 1
        keys, values = gather(cache, torch.from_numpy(step.block_tables[sequence]), length)
        keys = keys.repeat_interleave(num_heads // cache.kv_heads, dim=1)
        values = values.repeat_interleave(num_heads // cache.kv_heads, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q[first:last], keys) * scale
        unseen = torch.arange(length)[None, :] > positions[:, None]
        weights = scores.masked_fill(unseen, float("-inf")).softmax(-1)
        out[first:last] = torch.einsum("hqk,khd->qhd", weights, values)
    return out.flatten(1)


def gather(cache: LayerCache, block_table: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first `length` keys and values of a sequence, each [length, kv_heads, head_dim] in float32."""
    blocks = block_table[: -(-length // BLOCK_SIZE)].long()
    keys = cache.keys[blocks].permute(0, 3, 1, 2).flatten(0, 1)
    values = cache.values[blocks].permute(0, 2, 1, 3).flatten(0, 1)
    return keys[:length].float(), values[:length].float()
