"""What the rotation needs besides the activations."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class RotaryTables:
    """cos and sin [positions, width], float32; width is head_dim / 2, or less where only a part of each head turns."""

    cos: torch.Tensor
    sin: torch.Tensor


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Qwen3's normalisation of each head of q and k before the rotation; weights [head_dim]."""

    q: torch.Tensor
    k: torch.Tensor
    eps: float
