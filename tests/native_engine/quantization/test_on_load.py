"""Plain weights quantised while they are loaded, and matrices joined of parts that are not alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from kernels.linear import JoinedWeight, PackedWeight
from kernels.native.program import Program
from kernels.testing import assert_close
from native_engine.config import QUANTIZATIONS, EngineConfig
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights, open_weights
from native_engine.model_runner import NativeRunner, TorchRunner
from native_engine.quantization import on_load
from native_engine.quantization.dequantize import as_type, dequantize
from native_engine.quantization.weights import NativeLoader
from native_engine.sizing import ConfigurationError
from tests.native_engine.quantization import packers
from tests.native_engine.quantization.test_checkpoints import GPTQ, SHAPE, logits_of, quantised

# The largest error of a weight, as a share of the largest in its row.
WORST = {"fp8": 0.04, "int8": 0.004, "int4": 0.08, "q8_0": 0.005, "q4_1": 0.08, "q4_0": 0.14}
CONFIG = EngineConfig(model="", max_model_len=64, max_num_seqs=4, kv_cache_dtype="float32")
Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=0.1)).save_pretrained(folder)
    return folder


def raw(values: np.ndarray) -> RawTensor:
    return RawTensor("F32", values.shape, np.ascontiguousarray(values, np.float32).view(np.uint8))


def test_every_method_can_be_asked_for_and_no_other() -> None:
    assert set(QUANTIZATIONS) == {"auto", "none", *on_load.METHODS}


@pytest.mark.parametrize("method", on_load.METHODS)
def test_a_quantised_matrix_is_near_what_it_was(method: str) -> None:
    values = np.random.default_rng(0).normal(0.01, 0.1, (24, 192)).astype(np.float32)
    values[3] = 0.0
    values[4] *= 1e-2  # a scale of its own
    found = dequantize(on_load.quantise(raw(values), method))
    largest = np.abs(values).max(axis=1, keepdims=True)
    assert (np.abs(found - values) <= WORST[method] * largest + 1e-7).all()
    assert np.abs(found - values)[:3].max() > 0  # it was quantised at all
    assert not found[3].any()


def test_rows_that_no_group_fits_stay_as_they_are() -> None:
    odd = raw(np.ones((4, 40)))
    assert on_load.quantise(odd, "q4_0") is odd


@pytest.mark.parametrize("method", on_load.METHODS)
def test_a_model_quantised_on_load_computes_with_the_quantised_weights(method: str, plain: Path) -> None:
    weights, config = open_weights(plain), replace(CONFIG, quantization=method)
    expected = logits_of(TorchRunner(config, weights))
    assert_close(logits_of(NativeRunner(config, weights)), expected, 3e-2, method)
    exact = logits_of(TorchRunner(CONFIG, weights))
    assert np.abs(expected - exact).max() > 1e-3  # ... and not with the plain ones
    assert_close(expected, exact, 0.5, method)


def loader(weights: Weights, quantization: str) -> NativeLoader:
    return NativeLoader(weights, Program(4, 4, 1), quantization, "auto")


def test_the_head_keeps_eight_bits_the_table_all_and_a_router_too(plain: Path) -> None:
    weights = open_weights(plain)
    gate = "model.layers.0.mlp.gate.weight"
    weights = replace(weights, _readers=weights._readers | {gate: lambda: raw(np.ones((8, 128)))})
    found = loader(weights, "q4_0")
    assert _type(found.linear("model.layers.0.mlp.down_proj.weight")) == "Q4_0"
    assert _type(found.linear("lm_head.weight")) == "Q8_0"
    assert _type(found.linear("model.embed_tokens.weight")) == "Q8_0"  # as a tied head
    assert found.embedding("model.embed_tokens.weight").type_name == "F32"
    assert _type(found.linear(gate)) == "F32"


def _type(weight: Any) -> str:
    assert isinstance(weight, PackedWeight)
    return weight.type_name


def test_weights_that_are_quantised_already_are_not_quantised_again(plain: Path, tmp_path: Path) -> None:
    checkpoint = quantised(plain, tmp_path / "m", (GPTQ, packers.gptq))
    message = r"--quantization is 'int8', but .*q_proj.weight is quantised already \(INT4_32\): leave it at auto"
    with pytest.raises(ConfigurationError, match=message):
        NativeRunner(replace(CONFIG, quantization="int8"), open_weights(checkpoint.folder))


def test_parts_of_several_types_are_computed_each_in_its_own(tmp_path: Path) -> None:
    """With biases on q, k and v, which have to meet their own columns."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**SHAPE, initializer_range=0.1))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data = torch.rand_like(parameter)
    model.save_pretrained(tmp_path)
    weights = mixed(open_weights(tmp_path), {"q_proj": "q8_0", "k_proj": "q4_0", "gate_proj": "q4_1"})
    joined = loader(weights, "auto").linear(*(Q.replace("q_proj", f"{part}_proj") for part in "qkv"))
    assert isinstance(joined, JoinedWeight)
    assert [part.type_name for part in joined.parts] == ["Q8_0", "Q4_0", "F32"]
    assert_close(logits_of(NativeRunner(CONFIG, weights)), logits_of(TorchRunner(CONFIG, weights)), 3e-2)
    expected = load_file(tmp_path / "model.safetensors")[Q]
    assert np.abs(dequantize(weights.get(Q)) - expected.numpy()).max() > 0


def mixed(weights: Weights, methods: dict[str, str]) -> Weights:
    def reader(name: str) -> Callable[[], RawTensor]:
        method = next((method for part, method in methods.items() if f"{part}.weight" in name), None)
        return lambda: on_load.quantise(weights.get(name), method) if method else weights.get(name)

    return replace(weights, _readers={name: reader(name) for name in weights.names()})


def test_experts_of_several_types_are_one_matrix_all_the_same(plain: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = mixed(open_weights(plain), {"q_proj": "q8_0"})
    names = (Q, Q.replace("q_proj", "o_proj"))
    weight = loader(weights, "auto").experts(*names)
    assert (weight.type_name, weight.n) == ("F32", 256)
    assert "several types" in caplog.text
    assert as_type(weights.get(Q), "F32").data.tobytes()  # what its rows became
