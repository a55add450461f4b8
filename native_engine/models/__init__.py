"""One file a model family, which holds its layer; `create` finds the family of a configuration."""

from __future__ import annotations

from native_engine.loading.model_config import ModelConfig
from native_engine.models.decoder import Backbone, Decoder, MakeLayer
from native_engine.models.gemma import GemmaLayer
from native_engine.models.llama import LlamaLayer
from native_engine.parallel.group import ALONE, Group
from native_engine.quantization.weights import WeightLoader

FAMILIES: dict[str, MakeLayer] = {
    "gemma2": GemmaLayer,
    "gemma3": GemmaLayer,
    "gpt-oss": LlamaLayer,
    "llama": LlamaLayer,
    "phi3": LlamaLayer,
    "qwen2": LlamaLayer,
    "qwen3": LlamaLayer,
    "qwen3moe": LlamaLayer,
}


def create(config: ModelConfig, loader: WeightLoader, max_model_len: int, group: Group = ALONE) -> Decoder:
    """With a group, `config` and `loader` are this rank's (native_engine/parallel).

    Raises ValueError for an architecture that no family implements.
    """
    return Decoder(config, loader, max_model_len, _layer(config), group)


def create_backbone(config: ModelConfig, loader: WeightLoader, max_model_len: int) -> Backbone:
    """The same without the head. Raises ValueError for an architecture that no family implements."""
    return Backbone(config, loader, max_model_len, _layer(config))


def _layer(config: ModelConfig) -> MakeLayer:
    if config.architecture not in FAMILIES:
        raise ValueError(f"architecture {config.architecture!r} is not supported; known: {', '.join(FAMILIES)}")
    return FAMILIES[config.architecture]
