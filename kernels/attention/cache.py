"""The paged keys and values of one layer, the layout that every attention kernel agrees on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernels.memory import zeroed

BLOCK_SIZE = 16
CACHE_TYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
}


@dataclass(frozen=True, slots=True)
class LayerCache:
    """keys [blocks, kv_heads, head_dim, 16]: one vector holds one dimension of a whole block, so that scores need no
    horizontal sums; values [blocks, kv_heads, 16, head_dim]. A key is what is stored times `k_scale`, a value likewise;
    scales other than 1 are for FP8, which holds nothing above 448 and little below 2^-6. On a GPU the dimensions of a
    key lie side by side, as a value's do: there `keys` is a view of [blocks, kv_heads, 16, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor
    k_scale: float = 1.0
    v_scale: float = 1.0

    @property
    def kv_heads(self) -> int:
        return self.keys.shape[1]

    @property
    def head_dim(self) -> int:
        return self.keys.shape[2]

    @property
    def type_number(self) -> int:
        """The cache type as the native kernels number it."""
        return list(CACHE_TYPES.values()).index(self.keys.dtype)


def allocate(
    num_blocks: int, kv_heads: int, head_dim: int, dtype: torch.dtype, k_scale: float = 1.0, v_scale: float = 1.0
) -> LayerCache:
    """A zeroed cache of `num_blocks` blocks of 16 tokens; memory is taken page by page, as blocks are first used."""
    return LayerCache(
        _zeros(dtype, num_blocks, kv_heads, head_dim, BLOCK_SIZE),
        _zeros(dtype, num_blocks, kv_heads, BLOCK_SIZE, head_dim),
        k_scale,
        v_scale,
    )


def allocate_on(
    device: torch.device,
    num_blocks: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> LayerCache:
    """As `allocate`, on a GPU and in its layout."""
    keys, values = (
        torch.zeros(num_blocks, kv_heads, BLOCK_SIZE, head_dim, dtype=dtype, device=device) for _ in range(2)
    )
    return LayerCache(keys.transpose(2, 3), values, k_scale, v_scale)


def _zeros(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.from_numpy(zeroed(math.prod(shape) * dtype.itemsize)).view(dtype).view(shape)
