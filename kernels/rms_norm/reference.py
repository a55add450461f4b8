"""The truth, in float32 (Zhang and Sennrich 2019, equation 4)."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, residual: torch.Tensor | None = None) -> torch.Tensor:
    """x [..., width] over its root mean square, times weight [width], plus residual [..., width]."""
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight
    return y if residual is None else y + residual
