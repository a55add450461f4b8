"""What the rotation needs besides the activations."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class RotaryTables:
    """cos and sin [positions, head_dim / 2], float32."""

    cos: torch.Tensor
    sin: torch.Tensor


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Qwen3's normalisation of each head of q and k before the rotation; weights [head_dim]."""

    q: torch.Tensor
    k: torch.Tensor
    eps: float
