"""Random inputs that kernels and their references are given alike."""

from __future__ import annotations

import numpy as np
import torch

from kernels.device import DeviceTensor
from kernels.testing import assert_close

# Largest difference allowed, of the largest value: the interpreter cuts bfloat16 off where a GPU rounds it.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def random(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on(device: torch.device, x: torch.Tensor) -> DeviceTensor:
    return DeviceTensor(x.to(device))


def assert_near(actual: DeviceTensor | torch.Tensor, expected: torch.Tensor) -> None:
    """In the precision of what was computed."""
    tensor = actual.tensor if isinstance(actual, DeviceTensor) else actual
    computed: np.ndarray = tensor.float().cpu().numpy()
    assert_close(computed, expected.float().numpy(), TOLERANCE[tensor.dtype])
