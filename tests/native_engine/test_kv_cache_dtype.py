"""The KV cache in each of its types: the memory it takes, FP8's scales, and how far its logits stray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from backends.capacity import kv_bytes_per_token
from kernels.testing import assert_close
from native_engine.config import BLOCK_SIZE
from native_engine.loading.errors import ModelError
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, TorchRunner
from tests.native_engine.test_models import CONFIGS, EXACT, logits_of, save

FP8 = replace(EXACT, kv_cache_dtype="fp8")
PROMPT = [token * 7 % 300 for token in range(60)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save(CONFIGS["llama"], folder)
    return folder


def with_tensors(folder: Path, target: Path, tensors: dict[str, torch.Tensor]) -> Path:
    """The model with more tensors in its file."""
    target.mkdir(exist_ok=True)
    (target / "config.json").write_bytes((folder / "config.json").read_bytes())
    save_file({**load_file(folder / "model.safetensors"), **tensors}, target / "model.safetensors")
    return target


@pytest.mark.parametrize(
    ("kv_cache_dtype", "element"),
    [("auto", 2), ("float32", 4), ("float16", 2), ("bfloat16", 2), ("fp8", 1), ("fp8_e4m3", 1)],
)
def test_the_cache_takes_the_memory_that_the_arithmetic_says(model: Path, kv_cache_dtype: str, element: int) -> None:
    weights = open_weights(model)
    per_token = kv_bytes_per_token(weights.config.num_layers, 2, 32, element)
    config = replace(EXACT, kv_cache_dtype=kv_cache_dtype, kv_cache_memory=int(40.5 * BLOCK_SIZE * per_token))
    runner = NativeRunner(config, weights)
    assert runner.num_blocks == 40
    assert sum(cache.keys.nbytes + cache.values.nbytes for cache in runner.caches) == 40 * BLOCK_SIZE * per_token


@pytest.mark.parametrize("runner_class", [NativeRunner, TorchRunner])
def test_an_fp8_cache_moves_the_logits_little(model: Path, runner_class: Any) -> None:
    weights = open_weights(model)
    truth = logits_of(NativeRunner(EXACT, weights), PROMPT)
    assert_close(logits_of(runner_class(FP8, weights), PROMPT), truth, 0.03)


def test_the_scales_of_a_checkpoint_are_used_and_only_by_fp8(model: Path, tmp_path: Path) -> None:
    """Values so small that E4M3 has no codes for them are lost without a scale and kept with one."""
    tensors = load_file(model / "model.safetensors")
    shrunk = {name: value * 1e-4 for name, value in tensors.items() if "v_proj" in name}
    shrunk |= {name: value * 1e4 for name, value in tensors.items() if "o_proj" in name}
    scales = {
        f"model.layers.{layer}.self_attn.{part}_scale": torch.tensor(scale)
        for layer in range(3)
        for part, scale in (("k", 0.5), ("v", 1e-4))
    }
    bare = open_weights(with_tensors(model, tmp_path / "bare", shrunk))
    scaled = open_weights(with_tensors(model, tmp_path / "scaled", shrunk | scales))
    exact = NativeRunner(EXACT, scaled)
    assert [(cache.k_scale, cache.v_scale) for cache in exact.caches] == [(1.0, 1.0)] * 3
    truth = logits_of(exact, PROMPT)
    assert_close(logits_of(NativeRunner(FP8, scaled), PROMPT), truth, 0.03)
    with pytest.raises(AssertionError, match="of the largest value"):
        assert_close(logits_of(NativeRunner(FP8, bare), PROMPT), truth, 0.03)


@pytest.mark.parametrize("scale", [torch.tensor(0.0), torch.tensor(float("nan")), torch.ones(2)])
def test_a_scale_that_is_not_one_positive_number_is_refused(model: Path, tmp_path: Path, scale: torch.Tensor) -> None:
    weights = open_weights(with_tensors(model, tmp_path, {"model.layers.1.self_attn.v_scale": scale}))
    with pytest.raises(ModelError, match=r"layers\.1\.self_attn\.v_scale is .* set --kv-cache-dtype auto"):
        NativeRunner(FP8, weights)
    NativeRunner(EXACT, weights)
