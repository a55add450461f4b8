"""The scales of an FP8 KV cache, where a checkpoint brings them."""

from __future__ import annotations

import math

import torch

from native_engine.loading.errors import ModelError
from native_engine.loading.weights import Weights
from native_engine.quantization.dequantize import dequantize


def kv_scales(weights: Weights, dtype: torch.dtype) -> list[tuple[float, float]]:
    """For each layer what stored keys and values are multiplied by: 1.0 where the checkpoint says nothing, and for a
    cache of `dtype` that needs no scales. Raises ModelError for a scale that is not one positive number."""
    layers = range(weights.config.num_layers)
    if dtype != torch.float8_e4m3fn:
        return [(1.0, 1.0) for _ in layers]
    names = set(weights.names())
    return [(_scale(weights, names, layer, "k"), _scale(weights, names, layer, "v")) for layer in layers]


def _scale(weights: Weights, names: set[str], layer: int, part: str) -> float:
    name = f"model.layers.{layer}.self_attn.{part}_scale"
    if name not in names:
        return 1.0
    values = dequantize(weights.get(name)).reshape(-1)
    if len(values) != 1 or not 0 < values[0] < math.inf:
        raise ModelError(
            f"{weights.path}: {name} is {values[:4].tolist()}, where one positive number was expected; "
            "the model cannot have an FP8 KV cache: set --kv-cache-dtype auto."
        )
    return float(values[0])
