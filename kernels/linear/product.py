"""A product that is to be computed on a GPU, and how to go about it. Knows no kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from kernels.linear.device_weight import DeviceWeight


@dataclass(frozen=True, slots=True)
class Product:
    """y [m, n] = x [m, k] times weight [n, k], plus bias [n], plus residual [m, n]. Rows of y are as
    far apart as those of the residual, and may be further than n."""

    x: torch.Tensor
    weight: torch.Tensor | DeviceWeight
    bias: torch.Tensor | None
    residual: torch.Tensor | None
    y: torch.Tensor

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n, k."""
        return len(self.x), self.y.shape[1], self.x.shape[1]

    @property
    def held(self) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The weight's codes, scales and offsets."""
        if isinstance(self.weight, torch.Tensor):
            return self.weight, None, None
        return self.weight.codes, self.weight.scales, self.weight.offsets

    @property
    def group(self) -> int:
        """Columns that share a scale; 0: all of a row, or none has one."""
        if isinstance(self.weight, torch.Tensor) or self.weight.group == self.weight.k:
            return 0
        return self.weight.group


class Tile(NamedTuple):
    """A kernel, its tile of y, in how many parts k is split, and how it is compiled."""

    kernel: str
    block_m: int = 0
    block_n: int = 0
    split: int = 1
    num_warps: int = 4
    num_stages: int = 3


def bits_of(codes: torch.Tensor) -> torch.Tensor:
    """FP8 as bytes: not every GPU that has the kernels has the type."""
    return codes.view(torch.uint8) if codes.dtype == torch.float8_e4m3fn else codes
