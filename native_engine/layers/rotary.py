"""cos and sin for every position, with the scalings that models ask for."""

from __future__ import annotations

import math
from typing import Any

import torch

from kernels.rotary import RotaryTables


def rotary_tables(
    head_dim: int, theta: float, scaling: dict[str, Any] | None, positions: int, factors: torch.Tensor | None = None
) -> RotaryTables:
    """Tables [positions, head_dim / 2]. `factors` divide the frequencies one by one, as GGUF stores llama3's scaling.
    Raises ValueError for a scaling that is not known."""
    frequencies = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if factors is not None:
        frequencies = frequencies / factors
    else:
        frequencies = _scaled(frequencies, scaling or {})
    angles = torch.outer(torch.arange(positions).float(), frequencies)
    return RotaryTables(angles.cos().contiguous(), angles.sin().contiguous())


def _scaled(frequencies: torch.Tensor, scaling: dict[str, Any]) -> torch.Tensor:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind in ("default", "none"):
        return frequencies
    if kind == "linear":
        return frequencies / float(scaling["factor"])
    if kind == "llama3":
        return _llama3(frequencies, scaling)
    raise ValueError(f"rope scaling {kind!r} is not supported; known: default, linear, llama3")


def _llama3(frequencies: torch.Tensor, scaling: dict[str, Any]) -> torch.Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended (Llama 3.1)."""
    factor, original = float(scaling["factor"]), float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    wavelengths = 2 * math.pi / frequencies
    blend = ((original / wavelengths - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - blend) * frequencies / factor + blend * frequencies
