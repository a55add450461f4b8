"""What weights and KV cache really take against the planner's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from backends.capacity import ModelShape, kv_bytes_per_token, model_weight_bytes
from kernels.attention.cache import CACHE_TYPES
from native_engine.config import BLOCK_SIZE, EngineConfig
from native_engine.loading.model_config import ModelConfig
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner

CONFIG = EngineConfig(model="", max_model_len=64, max_num_seqs=4)
SHAPE: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 128,
}
# Of each --quantization: the formats of the layers and of the head. The table stays bfloat16, as the file has it.
FORMATS = {
    "auto": ("BF16", "BF16"),
    "fp8": ("FP8_E4M3", "FP8_E4M3"),
    "int8": ("INT8", "INT8"),
    "q8_0": ("Q8_0", "Q8_0"),
    "int4": ("INT4_64", "INT8"),
    "q4_1": ("Q4_1", "Q8_0"),
    "q4_0": ("Q4_0", "Q8_0"),
}


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True)), tmp_path_factory.mktemp("dense"))


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Qwen3MoeConfig(**SHAPE, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2)
    return saved(Qwen3MoeForCausalLM(config), tmp_path_factory.mktemp("experts"))


def saved(model: Any, folder: Path) -> Path:
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def shape_of(config: ModelConfig) -> ModelShape:
    return ModelShape(
        config.vocab_size,
        config.hidden_size,
        config.experts.width if config.experts else config.intermediate_size,
        config.num_layers,
        config.num_heads,
        config.num_kv_heads,
        config.head_dim,
        config.experts.count if config.experts else 0,
    )


@pytest.mark.parametrize("quantization", FORMATS)
@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_weights_take_what_the_planner_says(kind: str, quantization: str, request: pytest.FixtureRequest) -> None:
    weights = open_weights(request.getfixturevalue(kind))
    runner = NativeRunner(replace(CONFIG, quantization=quantization), weights)
    layers, head = FORMATS[quantization]
    expected = model_weight_bytes(shape_of(weights.config), layers, head=head)
    assert runner.weight_bytes == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("dtype", CACHE_TYPES)
def test_a_kv_cache_takes_what_the_planner_says(dtype: str, dense: Path) -> None:
    weights = open_weights(dense)
    runner = NativeRunner(replace(CONFIG, kv_cache_dtype=dtype), weights)
    model, size = weights.config, CACHE_TYPES[dtype].itemsize
    per_token = kv_bytes_per_token(model.num_layers, model.num_kv_heads, model.head_dim, size)
    held = sum(cache.keys.nbytes + cache.values.nbytes for cache in runner.caches)
    assert held == pytest.approx(per_token * BLOCK_SIZE * runner.num_blocks, rel=0.02)


@pytest.mark.slow
def test_a_real_model_takes_what_the_planner_says(smollm2: Path) -> None:
    weights = open_weights(smollm2)
    runner = NativeRunner(CONFIG, weights)
    table = weights.get("model.embed_tokens.weight").type
    expected = model_weight_bytes(shape_of(weights.config), "Q4_1", head=table, embedding=table)
    assert runner.weight_bytes == pytest.approx(expected, rel=0.02)
