"""The truth: float32 on dequantised weights."""

from __future__ import annotations

import torch

from kernels.linear.device_weight import DeviceWeight, JoinedDeviceWeight, dequantised


def linear(
    x: torch.Tensor,
    weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """x [rows, k] times weight [n, k], plus bias [n], plus residual [rows, n]."""
    y = torch.nn.functional.linear(x, dequantised(weight).to(x.dtype), bias)
    return y if residual is None else y + residual
