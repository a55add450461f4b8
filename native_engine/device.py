"""Where the model is computed: what the settings ask for, held against what this machine has."""

from __future__ import annotations

import importlib.util

import torch

from kernels.device import interpreting
from native_engine.config import EngineConfig, on_device
from native_engine.sizing import ConfigurationError


def settled(config: EngineConfig) -> EngineConfig:
    """`config` with device "cpu" or "gpu", and that device's numbers where nobody gave any.

    Raises ConfigurationError for a GPU that is not there.
    """
    if config.device == "gpu" and not interpreting():
        _require_gpu()
    has_gpu = torch.cuda.is_available() and not interpreting()  # ROCm answers through the same
    return on_device(config, ("gpu" if has_gpu else "cpu") if config.device == "auto" else config.device)


def torch_device(rank: int = 0) -> torch.device:
    """Where a rank's tensors of device "gpu" live: in Triton's interpreter that is the CPU. A GPU becomes this thread's
    own."""
    if interpreting():
        return torch.device("cpu")
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def _require_gpu() -> None:
    missing = []
    if torch.version.cuda is None and torch.version.hip is None:
        missing.append(f"torch {torch.__version__} is built for CPUs: install its build for CUDA or ROCm")
    elif not torch.cuda.is_available():
        missing.append(f"torch {torch.__version__} finds none: see that the driver answers (nvidia-smi, rocminfo)")
    if importlib.util.find_spec("triton") is None:
        missing.append("triton is not installed: pip install 'sekisho[gpu]'")
    if missing:
        raise ConfigurationError("--device is 'gpu'; expected a GPU, but " + "; ".join(missing))
