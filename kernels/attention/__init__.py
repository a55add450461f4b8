"""Causal attention over paged keys and values."""

from __future__ import annotations

from kernels.activation import Activation
from kernels.attention import cpu, reference
from kernels.attention.cache import LayerCache
from kernels.native.program import Buffer, StepArrays


def attention(qkv: Activation, cache: LayerCache, step: StepArrays, num_heads: int, scale: float) -> Activation:
    """qkv [rows, (heads + 2 kv_heads) * head_dim] with q rotated, k and v already in the cache; returns
    [rows, heads * head_dim]."""
    if isinstance(qkv, Buffer):
        return cpu.attention(qkv, cache, num_heads, scale)
    return reference.attention(qkv, cache, step, num_heads, scale)
