"""The truth: gather each sequence's blocks, then plain softmax attention in float32."""

from __future__ import annotations

import torch

from kernels.attention.cache import BLOCK_SIZE, LayerCache
from kernels.native.program import StepArrays


def attention(
    qkv: torch.Tensor,
    cache: LayerCache,
    step: StepArrays,
    num_heads: int,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """See kernels.attention.attention."""
    dim = cache.head_dim
    q = qkv[:, : num_heads * dim].view(-1, num_heads, dim)
    out = torch.empty_like(q)
    for sequence in range(step.struct.num_sequences):
        first, last = (int(start) for start in step.query_starts[sequence : sequence + 2])
        positions = torch.from_numpy(step.positions[first:last]).long().to(q.device)
        seen = (0 if window is None else max(0, int(positions[0]) + 1 - window), int(positions[-1]) + 1)
        keys, values = gather(cache, torch.from_numpy(step.block_tables[sequence]).to(q.device), *seen)
        keys = keys.repeat_interleave(num_heads // cache.kv_heads, dim=1)
        values = values.repeat_interleave(num_heads // cache.kv_heads, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q[first:last], keys) * scale
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        scores = scores.masked_fill(_unseen(positions, torch.arange(*seen, device=q.device), window), float("-inf"))
        out[first:last] = torch.einsum("hqk,khd->qhd", _weights(scores, sinks), values)
    return out.flatten(1)


def gather(cache: LayerCache, block_table: torch.Tensor, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of a sequence's tokens [first, last), each [last - first, kv_heads, head_dim] in float32."""
    start = first // BLOCK_SIZE
    blocks = block_table[start : -(-last // BLOCK_SIZE)].long()
    keys = cache.keys[blocks].permute(0, 3, 1, 2).flatten(0, 1)
    values = cache.values[blocks].permute(0, 2, 1, 3).flatten(0, 1)
    wanted = slice(first - start * BLOCK_SIZE, last - start * BLOCK_SIZE)
    return keys[wanted].float() * cache.k_scale, values[wanted].float() * cache.v_scale


def _unseen(positions: torch.Tensor, tokens: torch.Tensor, window: int | None) -> torch.Tensor:
    """[rows, tokens]: what lies after a row's own position, or before its window."""
    later = tokens[None, :] > positions[:, None]
    return later if window is None else later | (tokens[None, :] <= positions[:, None] - window)


def _weights(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Softmax of scores [heads, rows, tokens]; a sink takes its share and is dropped."""
    if sinks is None:
        return scores.softmax(-1)
    sink = sinks.float()[:, None, None].expand(-1, scores.shape[1], 1)
    return torch.cat([sink, scores], dim=-1).softmax(-1)[..., 1:]
