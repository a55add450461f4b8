"""y = x W^T, with quantised weights kept quantised."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation
from kernels.linear import cpu, reference
from kernels.linear.cpu import JoinedWeight, PackedWeight
from kernels.native.program import Buffer

__all__ = ["JoinedWeight", "PackedWeight", "linear"]


def linear(
    x: Activation,
    weight: torch.Tensor | PackedWeight | JoinedWeight,
    bias: torch.Tensor | None = None,
    residual: Activation | None = None,
) -> Activation:
    """x [rows, k] times weight [n, k], plus bias [n], plus residual [rows, n]; returns [rows, n] in float32."""
    if isinstance(x, Buffer):
        return cpu.linear(x, cast(PackedWeight | JoinedWeight, weight), bias, cast(Buffer | None, residual))
    return reference.linear(x, cast(torch.Tensor, weight), bias, cast(torch.Tensor | None, residual))
