"""Models with experts at a small size with random weights: our logits against transformers'."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GptOssConfig, MixtralConfig, Qwen3MoeConfig
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

from kernels.gated import gated
from kernels.testing import assert_close
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, TorchRunner
from tests.native_engine.gguf_of import write_as_gguf
from tests.native_engine.test_models import EXACT, SHAPE, assert_logits_equal, logits_of, save

# Weights large enough that every part shows in the logits.
WIDE: dict[str, Any] = {**SHAPE, "initializer_range": 0.06}
QWEN3: dict[str, Any] = {**WIDE, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "truncate": False,
}
GPT_OSS: dict[str, Any] = {
    **WIDE,
    "sliding_window": 40,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "rope_parameters": YARN,
}
CONFIGS = {
    "gpt-oss": GptOssConfig(**GPT_OSS),
    "qwen3moe": Qwen3MoeConfig(**QWEN3, norm_topk_prob=True),
    "qwen3moe-unnormalised": Qwen3MoeConfig(**QWEN3),
    "qwen3moe-sparse": Qwen3MoeConfig(**QWEN3, decoder_sparse_step=2),
    "qwen3moe-dense-layers": Qwen3MoeConfig(**QWEN3, mlp_only_layers=[0, 2]),
    "mixtral": MixtralConfig(**WIDE, num_local_experts=4),
}
# The architecture in llama.cpp, and what its converter writes beside the shape.
GGUF_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt-oss": (
        "gpt-oss",
        {
            "expert_count": 5,
            "expert_used_count": 2,
            "expert_feed_forward_length": 160,
            "attention.sliding_window": 40,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 8.0,
            "rope.scaling.original_context_length": 64,
        },
    ),
    "qwen3moe": ("qwen3moe", {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 48}),
    "qwen3moe-unnormalised": (
        "qwen3moe",
        {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 48, "expert_weights_norm": False},
    ),
    "mixtral": ("llama", {"expert_count": 4, "expert_used_count": 2}),
}


@pytest.mark.parametrize("runner_class", [NativeRunner, TorchRunner])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_transformers(name: str, runner_class: Any, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    assert_logits_equal(runner_class(EXACT, open_weights(tmp_path)), model, name, (1, 49))


@pytest.mark.parametrize("name", GGUF_CASES)
def test_logits_of_a_gguf_file_equal_transformers(name: str, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    architecture, extras = GGUF_CASES[name]
    path = write_as_gguf(model, tmp_path / "model.gguf", architecture, extras)
    assert_logits_equal(NativeRunner(EXACT, open_weights(path)), model, name, (49,))


def test_experts_in_several_files_are_the_same_model(tmp_path: Path) -> None:
    model = save(CONFIGS["qwen3moe"], tmp_path, max_shard_size="400KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_logits_equal(TorchRunner(EXACT, open_weights(tmp_path)), model, "in parts", (49,))


def test_the_clamped_activation_is_that_of_gpt_oss() -> None:
    gate_up = torch.randn(7, 2 * 160) * 8
    expected = GptOssExperts(GptOssConfig(**GPT_OSS))._apply_gate(gate_up)
    actual = gated(torch.cat([gate_up[:, 0::2], gate_up[:, 1::2]], dim=-1), "clamped_silu")
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("runner_class", [NativeRunner, TorchRunner])
def test_a_folder_in_mxfp4_is_the_model_that_its_blocks_say(runner_class: Any, tmp_path: Path) -> None:
    model = save(CONFIGS["gpt-oss"], tmp_path)
    file, settings = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = load_file(file)
    for name, parameter in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")):
            count, k, n = tensors.pop(name).shape
            blocks = torch.randint(0, 256, (count, n, k // 32, 16), dtype=torch.uint8)
            scales = torch.randint(118, 124, (count, n, k // 32), dtype=torch.uint8)
            parameter.data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    save_file(tensors, file)
    quantised = {"quantization_config": {"quant_method": "mxfp4"}}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | quantised))
    runner = runner_class(replace(EXACT, quantization="none"), open_weights(tmp_path))
    assert_logits_equal(runner, model, "mxfp4", (49,))
    if runner_class is NativeRunner:
        kept = NativeRunner(EXACT, open_weights(tmp_path))
        assert kept.weight_bytes < runner.weight_bytes * 0.6
        prompt = list(range(49))
        assert_close(logits_of(kept, prompt), logits_of(runner, prompt), 2e-2, "kept in blocks")
