"""The truth, in float32 (SwiGLU, Shazeer 2020)."""

from __future__ import annotations

import torch


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """x [rows, 2 * width] to silu(first half) * second half."""
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up
