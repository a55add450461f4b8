"""The truth, in float32 (GLU variants, Shazeer 2020; GELU's tanh form, Hendrycks and Gimpel 2016)."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, silu

LIMIT, SLOPE = 7.0, 1.702  # of gpt-oss (openai/gpt-oss, swiglu)


def gated(x: torch.Tensor, activation: str) -> torch.Tensor:
    """x [rows, 2 * width] to activation(first half) * second half."""
    gate, up = x.chunk(2, dim=-1)
    match activation:
        case "silu":
            return silu(gate) * up
        case "clamped_silu":
            gate, up = gate.clamp(max=LIMIT), up.clamp(-LIMIT, LIMIT)
            return gate * (gate * SLOPE).sigmoid() * (up + 1)
    return gelu(gate, approximate="tanh") * up
