"""The truth, in float32 (GLU variants, Shazeer 2020; GELU's tanh form, Hendrycks and Gimpel 2016)."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, silu


def gated(x: torch.Tensor, activation: str) -> torch.Tensor:
    """x [rows, 2 * width] to activation(first half) * second half."""
    gate, up = x.chunk(2, dim=-1)
    return (silu(gate) if activation == "silu" else gelu(gate, approximate="tanh")) * up
