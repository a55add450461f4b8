"""Folders with quantised weights, whole models of them: logits against transformers on the weights they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from kernels.testing import assert_close
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.loading.errors import ModelError
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, Runner, TorchRunner, fill_step
from native_engine.quantization.dequantize import dequantize
from native_engine.request import SamplingParams, Sequence
from tests.native_engine.quantization import packers
from tests.native_engine.quantization.packers import Packed

SHAPE: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
LEFT_ALONE = "model.layers.1.mlp.down_proj"
PROMPT = np.random.default_rng(0).integers(0, 96, 40).tolist()


@dataclass
class Checkpoint:
    folder: Path
    weights: dict[str, torch.Tensor]  # what the folder's tensors stand for, in float32


Recipe = tuple[dict[str, Any], Callable[[torch.Tensor], Packed]]


def compressed(form: str, **weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": [LEFT_ALONE]}


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
RECIPES: dict[str, Recipe] = {
    "awq": (AWQ, packers.awq),
    "gptq": (GPTQ, packers.gptq),
    "gptq-symmetric": (GPTQ | {"sym": True}, partial(packers.gptq, symmetric=True)),
    "gptq-v2": (GPTQ | {"checkpoint_format": "gptq_v2"}, partial(packers.gptq, version=2)),
    "gptq-8-bits": (GPTQ | {"bits": 8}, partial(packers.gptq, bits=8, symmetric=True)),
    "gptq-one-group": (GPTQ | {"group_size": -1}, lambda weight: packers.gptq(weight, weight.shape[1])),
    "gptq-act-order": (GPTQ | {"desc_act": True}, partial(packers.gptq, act_order=1)),
    "packed-int4": (compressed("pack-quantized", num_bits=4, type="int"), packers.packed_int),
    "packed-int4-asymmetric": (
        compressed("pack-quantized", num_bits=4, type="int", symmetric=False),
        partial(packers.packed_int, group=128, symmetric=False),
    ),
    "packed-int8": (compressed("pack-quantized", num_bits=8, type="int"), partial(packers.packed_int, bits=8)),
    "int8": (compressed("int-quantized", num_bits=8, type="int"), packers.int8),
    "float8": (
        compressed("float-quantized", num_bits=8, type="float"),
        partial(packers.fp8, block=None, name="weight_scale"),
    ),
    "fp8-blocks": (FP8, packers.fp8),
    "fp8-cut-blocks": (FP8 | {"weight_block_size": [96, 128]}, partial(packers.fp8, block=(96, 128))),
    "fp8-tensor": (
        {"quant_method": "fp8", "activation_scheme": "static"},
        partial(packers.fp8, block=None, name="weight_scale"),
    ),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=0.1))
    model.save_pretrained(folder)
    return folder


def quantised(plain: Path, folder: Path, recipe: Recipe) -> Checkpoint:
    """The plain model with every projection but one packed; embedding and head are left alone, as recipes do it."""
    settings, pack = recipe
    folder.mkdir()
    config = json.loads((plain / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    tensors, meant = {}, {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.endswith("_proj") and module != LEFT_ALONE:
            parts, meant[name] = pack(tensor.float())
            tensors |= {f"{module}.{part}": values.contiguous() for part, values in parts.items()}
        else:
            tensors[name] = meant[name] = tensor
    save_file(tensors, folder / "model.safetensors")
    return Checkpoint(folder, meant)


def expected_logits(checkpoint: Checkpoint) -> np.ndarray:
    model = LlamaForCausalLM(LlamaConfig(**SHAPE)).float().eval()
    model.load_state_dict({name: tensor.float() for name, tensor in checkpoint.weights.items()})
    with torch.inference_mode():
        return model(torch.tensor([PROMPT])).logits[0, -1].numpy()


def logits_of(runner: Runner) -> np.ndarray:
    sequence = Sequence("r", PROMPT, SamplingParams())
    sequence.block_table = list(range(-(-len(PROMPT) // 16)))
    fill_step(runner.step, ScheduledBatch([ScheduledSequence(sequence, len(PROMPT), 1)]).items)
    return runner.forward()[0].numpy()[0].copy()


@pytest.mark.parametrize("name", RECIPES)
def test_logits_are_those_of_the_weights_that_a_checkpoint_stands_for(name: str, plain: Path, tmp_path: Path) -> None:
    checkpoint = quantised(plain, tmp_path / name, RECIPES[name])
    weights = open_weights(checkpoint.folder)
    expected = expected_logits(checkpoint)
    exact = EngineConfig(model="", max_model_len=64, max_num_seqs=4, kv_cache_dtype="float32", quantization="none")
    assert_close(logits_of(TorchRunner(exact, weights)), expected, 1e-5, name)
    assert_close(logits_of(NativeRunner(exact, weights)), expected, 1e-5, name)
    kept = EngineConfig(model="", max_model_len=64, max_num_seqs=4)
    assert_close(logits_of(NativeRunner(kept, weights)), expected, 3e-2, name)


@pytest.mark.parametrize("name", ["gptq", "gptq-act-order", "fp8-blocks"])
def test_experts_are_read_like_any_other_layer(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = Qwen3MoeConfig(**SHAPE, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2)
    Qwen3MoeForCausalLM(config).save_pretrained(tmp_path / "plain")
    checkpoint = quantised(tmp_path / "plain", tmp_path / "m", RECIPES[name])
    weights = open_weights(checkpoint.folder)
    for each, meant in checkpoint.weights.items():
        np.testing.assert_allclose(dequantize(weights.get(each)), meant.numpy(), rtol=1e-6, err_msg=each)
    exact = EngineConfig(model="", max_model_len=64, max_num_seqs=4, kv_cache_dtype="float32", quantization="none")
    expected = logits_of(TorchRunner(exact, weights))
    assert_close(logits_of(NativeRunner(exact, weights)), expected, 1e-5)
    kept = NativeRunner(EngineConfig(model="", max_model_len=64, max_num_seqs=4), weights)
    assert_close(logits_of(kept), expected, 0.2)  # where a rounded row goes to another expert, it is far


def test_layers_that_the_recipe_left_alone_stay_as_they_are(plain: Path, tmp_path: Path) -> None:
    checkpoint = quantised(plain, tmp_path / "m", RECIPES["gptq"])
    weights = open_weights(checkpoint.folder)
    assert weights.get(f"{LEFT_ALONE}.weight").type == "F32"
    assert weights.get("lm_head.weight").type == "F32"
    assert weights.get("model.layers.0.mlp.down_proj.weight").type == "INT4_32"


def test_a_layer_of_other_bits_than_the_rest_is_read_by_its_own_shape(plain: Path, tmp_path: Path) -> None:
    mixed = lambda weight: packers.gptq(weight, bits=8 if weight.shape[0] == 256 else 4)  # noqa: E731
    checkpoint = quantised(plain, tmp_path / "m", (GPTQ, mixed))
    weights = open_weights(checkpoint.folder)
    for part in ("gate_proj", "down_proj"):
        name = f"model.layers.0.mlp.{part}.weight"
        np.testing.assert_allclose(dequantize(weights.get(name)), checkpoint.weights[name].numpy(), rtol=1e-6)


def test_eight_bits_with_zero_points_are_held_as_float32_and_said_to_be(
    plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = quantised(plain, tmp_path / "m", (GPTQ | {"bits": 8}, partial(packers.gptq, bits=8)))
    name = "model.layers.0.mlp.gate_proj.weight"
    raw = open_weights(checkpoint.folder).get(name)
    assert raw.type == "F32"
    assert "model.layers.0.mlp.gate_proj: no kernel" in caplog.text
    np.testing.assert_allclose(dequantize(raw), checkpoint.weights[name].numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"quant_method": "bitsandbytes"},
            "by 'bitsandbytes' are not supported; known: awq, compressed-tensors, fp8, ",
        ),
        ({}, "by '' are not supported"),
        (AWQ | {"bits": 8}, "awq weights of this kind are not supported: 8 bits; known: 4"),
        (AWQ | {"version": "gemv"}, "version 'gemv'; known: 'gemm'"),
        (GPTQ | {"bits": 3}, "3 bits; known: 4, 8"),
        (GPTQ | {"checkpoint_format": "marlin"}, "format 'marlin'; known: gptq, gptq_v2"),
        (compressed("marlin-24"), "format 'marlin-24'; known: pack-quantized"),
        (compressed("pack-quantized", num_bits=3, type="int"), "int3 weights; known: int4, int8, float8"),
        (compressed("dense") | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse weights"),
        (compressed("dense") | {"transform_config": {"config_groups": {"R1": {}}}}, "rotated"),
        (FP8 | {"fmt": "e5m2"}, "format 'e5m2'; known: 'e4m3'"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(
    settings: dict[str, Any], message: str, plain: Path, tmp_path: Path
) -> None:
    folder = quantised(plain, tmp_path / "m", (settings, packers.gptq)).folder
    with pytest.raises(ModelError, match=message):
        open_weights(folder)


def without(part: str, packed: Packed) -> Packed:
    return {name: tensor for name, tensor in packed[0].items() if name != part}, packed[1]


def changed(part: str, change: Callable[[torch.Tensor], torch.Tensor], packed: Packed) -> Packed:
    return packed[0] | {part: change(packed[0][part])}, packed[1]


@pytest.mark.parametrize(
    ("settings", "pack", "message"),
    [
        (AWQ, lambda w: without("scales", packers.awq(w)), "tensor .*q_proj.scales is missing"),
        (AWQ, lambda w: changed("scales", lambda s: s[:, 8:], packers.awq(w)), r"codes \(128, 128\).* do not fit"),
        (
            AWQ,
            lambda w: changed("qweight", lambda q: q.float(), packers.awq(w)),
            "qweight is of type F32; expected I32",
        ),
        (GPTQ, lambda w: changed("scales", lambda s: s[1:], packers.gptq(w)), "do not fit"),
        (
            GPTQ | {"desc_act": True},
            lambda w: changed("g_idx", lambda g: g.clamp(max=2), packers.gptq(w)),
            "4 groups are of 0 to 64 columns; expected one size",
        ),
        (
            FP8,
            lambda w: changed("weight_scale_inv", lambda _: torch.ones(3, 3), packers.fp8(w)),
            "for blocks 128 x 128",
        ),
        (
            FP8 | {"weight_block_size": None},
            lambda w: changed("weight_scale_inv", lambda _: torch.ones(3, 3), packers.fp8(w)),
            "9 scales for 128 rows",
        ),
        (FP8, lambda w: changed("weight", lambda v: v.float().sign() / 0, packers.fp8(w)), "expected F8_E4M3"),
        (
            compressed("pack-quantized"),
            lambda w: changed("weight_shape", lambda s: s // 2, packers.packed_int(w)),
            r"packed 128 x 16 for \[64, 64\]",
        ),
    ],
)
def test_a_damaged_layer_is_refused_by_name(
    settings: dict[str, Any], pack: Callable[[torch.Tensor], Packed], message: str, plain: Path, tmp_path: Path
) -> None:
    weights = open_weights(quantised(plain, tmp_path / "m", (settings, pack)).folder)
    with pytest.raises(ModelError, match=f"model.layers.0.self_attn.q_proj.*{message}"):
        weights.get("model.layers.0.self_attn.q_proj.weight")


def test_a_float8_tensor_without_a_scale_is_missing_rather_than_taken_at_face_value(
    plain: Path, tmp_path: Path
) -> None:
    folder = quantised(plain, tmp_path / "m", (FP8, lambda w: without("weight_scale_inv", packers.fp8(w)))).folder
    with pytest.raises(ModelError, match=r"q_proj\.weight is missing"):
        open_weights(folder).get("model.layers.0.self_attn.q_proj.weight")
