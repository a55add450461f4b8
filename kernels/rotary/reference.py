"""The truth, in float32: pairs (i, i + width) turn by position * frequency (Su et al. 2021)."""

from __future__ import annotations

import math

import numpy as np
import torch

from kernels.attention.cache import BLOCK_SIZE, LayerCache
from kernels.native.program import StepArrays
from kernels.rms_norm.reference import rms_norm
from kernels.rotary.tables import HeadNorms, RotaryTables


def rotary(
    qkv: torch.Tensor,
    tables: RotaryTables,
    cache: LayerCache,
    step: StepArrays,
    num_heads: int,
    norms: HeadNorms | None,
) -> torch.Tensor:
    """See kernels.rotary.rotary."""
    rows, dim = len(qkv), cache.head_dim
    q, k, v = qkv.view(rows, -1, dim).tensor_split([num_heads, num_heads + cache.kv_heads], dim=1)
    if norms:
        q, k = rms_norm(q, norms.q, norms.eps), rms_norm(k, norms.k, norms.eps)
    positions = torch.from_numpy(step.positions[:rows]).long().to(qkv.device)
    cos, sin = tables.cos[positions][:, None], tables.sin[positions][:, None]
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    written = torch.from_numpy(np.flatnonzero(step.slots[:rows] >= 0)).to(qkv.device)
    slots = torch.from_numpy(step.slots[:rows]).long().to(qkv.device)[written]
    keys, values = k[written] * (1 / cache.k_scale), v[written] * (1 / cache.v_scale)
    cache.keys[slots // BLOCK_SIZE, :, :, slots % BLOCK_SIZE] = _rounded(keys, cache.keys.dtype)
    cache.values[slots // BLOCK_SIZE, :, slots % BLOCK_SIZE] = _rounded(values, cache.values.dtype)
    return torch.cat([q, k, v], dim=1).flatten(1)


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """To the nearest, ties to even; FP8, which has no infinity, ends at its largest number."""
    limit = torch.finfo(dtype).max if dtype == torch.float8_e4m3fn else math.inf
    return x.clamp(-limit, limit).to(dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [rows, heads, head_dim] with cos and sin [rows, 1, width]; dimensions past 2 * width are kept."""
    width = cos.shape[-1]
    a, b, rest = x.tensor_split([width, 2 * width], dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
