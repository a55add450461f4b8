"""y = x W^T, with quantised weights kept quantised."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation
from kernels.device import DeviceOp, DeviceTensor
from kernels.linear import cpu, reference
from kernels.linear.cpu import JoinedWeight, PackedWeight
from kernels.linear.device_weight import DeviceWeight, JoinedDeviceWeight
from kernels.native.program import Buffer

__all__ = ["DeviceWeight", "JoinedDeviceWeight", "JoinedWeight", "PackedWeight", "linear"]

_on_device = DeviceOp[DeviceTensor]("linear", "linear", reference.linear)


def linear(
    x: Activation,
    weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight | PackedWeight | JoinedWeight,
    bias: torch.Tensor | None = None,
    residual: Activation | None = None,
) -> Activation:
    """x [rows, k] times weight [n, k], plus bias [n], plus residual [rows, n]; returns [rows, n]."""
    if isinstance(x, Buffer):
        return cpu.linear(x, cast(PackedWeight | JoinedWeight, weight), bias, cast(Buffer | None, residual))
    if isinstance(x, DeviceTensor):
        return _on_device(x, weight, bias, residual)
    return reference.linear(x, cast(torch.Tensor, weight), bias, cast(torch.Tensor | None, residual))
