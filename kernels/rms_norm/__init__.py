"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation
from kernels.device import DeviceOp, DeviceTensor
from kernels.native.program import Buffer
from kernels.rms_norm import cpu, reference

_on_device = DeviceOp[DeviceTensor]("rms_norm", "rms_norm", reference.rms_norm)


def rms_norm(x: Activation, weight: torch.Tensor, eps: float, residual: Activation | None = None) -> Activation:
    """x [rows, width] over its root mean square, times weight [width], plus residual [rows, width]."""
    if isinstance(x, Buffer):
        return cpu.rms_norm(x, weight, eps, cast(Buffer | None, residual))
    if isinstance(x, DeviceTensor):
        return _on_device(x, weight, eps, residual)
    return reference.rms_norm(x, weight, eps, cast(torch.Tensor | None, residual))
