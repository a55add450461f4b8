"""The Triton kernels run where they can: on a GPU, or in Triton's interpreter on the CPU."""

from __future__ import annotations

import pytest
import torch

from kernels.device import interpreting


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cpu" if interpreting() else "cuda")
