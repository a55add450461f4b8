"""Weights without a file: random numbers made on the device, in the shapes and formats of a model. For measurements."""

from __future__ import annotations

import torch

from kernels.linear.device_weight import DeviceWeight, pack

GROUP = 128  # columns that share a scale in int4
FORMATS = ("bf16", "fp8", "int8", "int4")  # bf16: plain, in whatever type the model computes in


def random_matrix(
    n: int, k: int, weight_format: str, device: torch.device, dtype: torch.dtype
) -> torch.Tensor | DeviceWeight:
    """[n, k] with values of about 1 / sqrt(k), so that activations keep their size from layer to layer."""
    size = k**-0.5
    if weight_format == "bf16":
        return torch.empty(n, k, device=device, dtype=dtype).normal_(std=size)
    if weight_format == "int4":
        scales = torch.full((k // GROUP, n), size / 4, device=device, dtype=torch.bfloat16)
        return DeviceWeight(n, k, GROUP, pack(_integers(n, k, 8, device)), scales)
    if weight_format == "int8":
        codes, scale = _integers(n, k, 128, device), size / 64
    else:
        codes, scale = torch.randn(n, k, device=device).to(torch.float8_e4m3fn), size
    return DeviceWeight(n, k, k, codes, torch.full((1, n), scale, device=device))


def _integers(n: int, k: int, limit: int, device: torch.device) -> torch.Tensor:
    """int8 from -limit to limit - 1."""
    return torch.randint(-limit, limit, (n, k), device=device, dtype=torch.int8)
