"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation
from kernels.native.program import Buffer
from kernels.rms_norm import cpu, reference


def rms_norm(x: Activation, weight: torch.Tensor, eps: float, residual: Activation | None = None) -> Activation:
    """x [rows, width] over its root mean square, times weight [width], plus residual [rows, width]."""
    if isinstance(x, Buffer):
        return cpu.rms_norm(x, weight, eps, cast(Buffer | None, residual))
    return reference.rms_norm(x, weight, eps, cast(torch.Tensor | None, residual))
