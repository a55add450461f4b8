"""Where the model is computed: what the settings ask for, held against what this machine has."""

from __future__ import annotations

import importlib.util
import logging

import torch

from kernels.device import interpreting
from native_engine.config import EngineConfig, on_device
from native_engine.sizing import ConfigurationError

logger = logging.getLogger(__name__)

_GET_TRITON = "pip install 'sekisho[gpu]'"


def settled(config: EngineConfig) -> EngineConfig:
    """`config` with device "cpu" or "gpu", and that device's numbers where nobody gave any.

    Raises ConfigurationError for a GPU that is not there.
    """
    device = config.device
    if device == "gpu" and not interpreting():
        _require_gpu()
    if device == "auto":
        device = "gpu" if _has_gpu() else "cpu"
    return on_device(config, device)


def _has_gpu() -> bool:
    if interpreting() or not torch.cuda.is_available():  # ROCm answers through the same
        return False
    if not _has_triton():
        logger.warning("there is a GPU, but triton is not installed: the engine runs on the CPU; %s", _GET_TRITON)
    return _has_triton()


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


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
    if not _has_triton():
        missing.append(f"triton is not installed: {_GET_TRITON}")
    if missing:
        raise ConfigurationError("--device is 'gpu'; expected a GPU, but " + "; ".join(missing))
