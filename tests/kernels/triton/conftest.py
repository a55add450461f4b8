"""The Triton kernels run where they can: on a GPU, or in Triton's interpreter on the CPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from kernels.device import interpreting

collect_ignore_glob = ["test_*.py"] if find_spec("triton") is None else []


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cpu" if interpreting() else "cuda")
