"""The truth."""

from __future__ import annotations

import torch


def argmax(x: torch.Tensor) -> torch.Tensor:
    """x [rows, width] to int32 [rows]; -1 where a row is not finite."""
    best = x.argmax(-1).to(torch.int32)
    return torch.where(x.isfinite().all(-1), best, -1)
