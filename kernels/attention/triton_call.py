"""What the kernels of decode and prefill are both given: one call of attention, in their terms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.attention.cache import LayerCache
from kernels.device import DeviceStep

# The type in which q and keys, weights and values are multiplied, by the cache's: float16 holds all numbers of FP8.
PRODUCT_TYPES = {
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float8_e4m3fn: tl.float16,
}


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program holds at once: `rows` of q, each a query and a head, against `tokens`."""

    rows: int
    tokens: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class Call:
    """See kernels.attention.attention; out [rows, heads * head_dim] is written."""

    q: torch.Tensor
    cache: LayerCache
    step: DeviceStep
    num_heads: int
    scale: float
    window: int | None
    soft_cap: float | None
    sinks: torch.Tensor | None
    out: torch.Tensor

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return self.num_heads // self.cache.kv_heads

    @property
    def key(self) -> tuple[object, ...]:
        """What decides which tile is best."""
        dtypes = (str(self.q.dtype), str(self.cache.keys.dtype))
        return (self.group, self.cache.kv_heads, self.cache.head_dim, self.window, self.soft_cap is None, *dtypes)

    def pointers(self) -> dict[str, torch.Tensor]:
        return {
            "q_ptr": self.q,
            "keys_ptr": _readable(self.cache.keys),
            "values_ptr": _readable(self.cache.values),
            "positions_ptr": self.step.positions,
            "tables_ptr": self.step.block_tables,
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "kv_heads": self.cache.kv_heads,
            "row_stride": self.q.shape[1],
            "table_stride": self.step.block_tables.shape[1],
            "window": self.window,
            "scale": self.scale * self.cache.k_scale,
            "soft_cap": self.soft_cap,
            "v_scale": self.cache.v_scale,
            "GROUP": self.group,
            "DIM": self.cache.head_dim,
            "DIM_PADDED": triton.next_power_of_2(self.cache.head_dim),
            "DTYPE": tl.float32 if self.q.dtype == torch.float32 else PRODUCT_TYPES[self.cache.keys.dtype],
        }


def _readable(stored: torch.Tensor) -> torch.Tensor:
    """FP8 as bytes where the GPU does not convert it: see device_math.from_e4m3."""
    if stored.dtype == torch.float8_e4m3fn and not _converts_fp8(stored.device):
        return stored.view(torch.uint8)
    return stored


@cache
def _converts_fp8(device: torch.device) -> bool:
    return device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device) >= (8, 9)
