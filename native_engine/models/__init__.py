"""One file a model family; `create` finds the family of a configuration."""

from __future__ import annotations

from typing import Protocol

from kernels.activation import Activation
from kernels.attention.cache import LayerCache
from kernels.native.program import StepArrays
from native_engine.loading.model_config import ModelConfig
from native_engine.models.llama import Llama
from native_engine.quantization.weights import WeightLoader


class Model(Protocol):
    """A decoder with its weights."""

    def forward(self, step: StepArrays, caches: list[LayerCache]) -> Activation:
        """Logits [rows to sample, vocabulary] of one step; writes the step's keys and values to the caches."""
        ...


class Family(Protocol):
    def __call__(self, config: ModelConfig, loader: WeightLoader, max_model_len: int) -> Model: ...


FAMILIES: dict[str, Family] = {
    "gpt-oss": Llama,
    "llama": Llama,
    "phi3": Llama,
    "qwen2": Llama,
    "qwen3": Llama,
    "qwen3moe": Llama,
}


def create(config: ModelConfig, loader: WeightLoader, max_model_len: int) -> Model:
    """Raises ValueError for an architecture that no family implements."""
    if config.architecture not in FAMILIES:
        raise ValueError(f"architecture {config.architecture!r} is not supported; known: {', '.join(FAMILIES)}")
    return FAMILIES[config.architecture](config, loader, max_model_len)
