"""Logits kept within bounds smoothly, as Gemma 2 does it."""

from __future__ import annotations

from kernels.activation import Activation
from kernels.device import DeviceOp, DeviceTensor
from kernels.native.program import Buffer
from kernels.soft_cap import cpu, reference

_on_device = DeviceOp[DeviceTensor]("soft_cap", "soft_cap", reference.soft_cap)


def soft_cap(x: Activation, cap: float) -> Activation:
    """x [rows, width] to cap * tanh(x / cap), which lies between -cap and cap."""
    if isinstance(x, Buffer):
        return cpu.soft_cap(x, cap)
    return _on_device(x, cap) if isinstance(x, DeviceTensor) else reference.soft_cap(x, cap)
