"""The most likely token of each row, with a watch for rows that hold NaN."""

from __future__ import annotations

import torch

from kernels.activation import Activation
from kernels.argmax import cpu, reference
from kernels.device import DeviceOp, DeviceTensor
from kernels.native.program import Buffer

NOT_FINITE = -1

_on_device = DeviceOp[torch.Tensor]("argmax", "argmax", reference.argmax)


def argmax(x: Activation) -> torch.Tensor:
    """x [rows, width] to int32 [rows]: the first of the largest values; -1 where a row holds NaN or infinity.
    From a Buffer the tensor returned is a view that each run of the program fills."""
    if isinstance(x, Buffer):
        return cpu.argmax(x)
    return _on_device(x) if isinstance(x, DeviceTensor) else reference.argmax(x)
