"""cos and sin for every position, with the scalings that models ask for."""

from __future__ import annotations

import math
from typing import Any

import torch

from kernels.rotary import RotaryTables

Scaling = dict[str, Any]


def rotary_tables(
    head_dim: int, theta: float, scaling: Scaling | None, positions: int, factors: torch.Tensor | None = None
) -> RotaryTables:
    """Tables [positions, head_dim / 2]. `factors` divide the frequencies one by one, as GGUF stores the outcome of a
    scaling. Raises ValueError for a scaling that is not known."""
    scaling = scaling or {"rope_type": "default"}
    frequencies = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    frequencies = _scaled(frequencies, theta, scaling) if factors is None else frequencies / factors
    angles = torch.outer(torch.arange(positions).float(), frequencies)
    size = _attention_factor(scaling)
    return RotaryTables((angles.cos() * size).contiguous(), (angles.sin() * size).contiguous())


def _scaled(frequencies: torch.Tensor, theta: float, scaling: Scaling) -> torch.Tensor:
    match scaling["rope_type"]:
        case "default" | "dynamic":  # dynamic NTK changes nothing up to the trained length, and we go no further
            return frequencies
        case "linear":
            return frequencies / float(scaling["factor"])
        case "llama3":
            return _llama3(frequencies, scaling)
        case "yarn":
            return _yarn(frequencies, theta, scaling)
        case "longrope":  # its other factors are for texts past the original length, which sizing.py keeps out
            return frequencies / torch.tensor(scaling["short_factor"], dtype=torch.float32)
    known = "default, linear, dynamic, llama3, yarn, longrope"
    raise ValueError(f"rope scaling {scaling['rope_type']!r} is not supported; known: {known}")


def _llama3(frequencies: torch.Tensor, scaling: Scaling) -> torch.Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended (Llama 3.1)."""
    factor, original = float(scaling["factor"]), float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    wavelengths = 2 * math.pi / frequencies
    blend = ((original / wavelengths - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - blend) * frequencies / factor + blend * frequencies


def _yarn(frequencies: torch.Tensor, theta: float, scaling: Scaling) -> torch.Tensor:
    """Frequencies that turn less than `beta_slow` times over the original length are divided by `factor`, those that
    turn more than `beta_fast` times are kept, those between blended (Peng et al. 2023)."""
    count = len(frequencies)
    original = scaling["original_max_position_embeddings"]

    def index(turns: float) -> float:
        return count * math.log(original / (turns * 2 * math.pi)) / math.log(theta)

    low, high = index(scaling.get("beta_fast") or 32), index(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * count - 1)
    blend = ((torch.arange(count).float() - low) / (high - low or 0.001)).clamp(0.0, 1.0)
    return blend * frequencies / float(scaling["factor"]) + (1 - blend) * frequencies


def _attention_factor(scaling: Scaling) -> float:
    """What cos and sin are multiplied by: a stretched context wants sharper attention."""
    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    factor = float(scaling.get("factor") or 1.0)
    if scaling["rope_type"] == "longrope" and factor > 1:
        return math.sqrt(1 + math.log(factor) / math.log(scaling["original_max_position_embeddings"]))
    if scaling["rope_type"] != "yarn":
        return 1.0
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return _yarn_size(factor, scaling["mscale"]) / _yarn_size(factor, scaling["mscale_all_dim"])
    return _yarn_size(factor)


def _yarn_size(factor: float, scale: float = 1.0) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
