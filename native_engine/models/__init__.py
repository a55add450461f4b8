"""One file a model family; `create` finds the family of a configuration."""

from __future__ import annotations

from native_engine.loading.model_config import ModelConfig
from native_engine.models.llama import Llama
from native_engine.quantization.weights import WeightLoader

FAMILIES = {"llama": Llama, "phi3": Llama, "qwen2": Llama, "qwen3": Llama}


def create(config: ModelConfig, loader: WeightLoader, max_model_len: int) -> Llama:
    """Raises ValueError for an architecture that no family implements."""
    if config.architecture not in FAMILIES:
        raise ValueError(f"architecture {config.architecture!r} is not supported; known: {', '.join(FAMILIES)}")
    return FAMILIES[config.architecture](config, loader, max_model_len)
