"""Root-mean-square normalisation."""

from __future__ import annotations

import torch

from kernels.activation import Activation
from kernels.native.program import Buffer
from kernels.rms_norm import cpu, reference


def rms_norm(x: Activation, weight: torch.Tensor, eps: float) -> Activation:
    """x [rows, width] over its root mean square, times weight [width]."""
    return cpu.rms_norm(x, weight, eps) if isinstance(x, Buffer) else reference.rms_norm(x, weight, eps)
