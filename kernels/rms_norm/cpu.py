"""Records the normalisation; see cpu.h for the slots."""

from __future__ import annotations

import torch

from kernels.native.program import Buffer, Kind


def rms_norm(x: Buffer, weight: torch.Tensor, eps: float, residual: Buffer | None = None) -> Buffer:
    y = x.program.buffer(x.width, x.sampled)
    x.program.record(Kind.RMS_NORM, [x, weight.float().numpy(), y, residual], [x.width], (eps,), x.sampled)
    return y
