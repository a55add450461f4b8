"""Each architecture at a small size with random weights: our logits against transformers'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)
from transformers.configuration_utils import PretrainedConfig

from kernels.testing import assert_close
from native_engine import models
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, Runner, TorchRunner, fill_step
from native_engine.request import SamplingParams, Sequence
from native_engine.sizing import ConfigurationError
from tests.native_engine.driving import generate, reference_logits
from tests.native_engine.gguf_of import write_as_gguf

SHAPE: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "head_dim": 32,
    "tie_word_embeddings": False,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": np.linspace(1.0, 1.5, 16).tolist(),
    "long_factor": np.linspace(2.0, 9.0, 16).tolist(),
}
PHI3: dict[str, Any] = {**SHAPE, "hidden_size": 192, "pad_token_id": None, "eos_token_id": 2}
PHI4: dict[str, Any] = {**PHI3, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 64}
GEMMA: dict[str, Any] = {
    **SHAPE,
    "tie_word_embeddings": True,
    "sliding_window": 21,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "query_pre_attn_scalar": 24,
}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "llama-tied": LlamaConfig(**{**SHAPE, "tie_word_embeddings": True}),
    "llama3-rope": LlamaConfig(**SHAPE, rope_parameters=LLAMA3_ROPE),
    "linear-rope": LlamaConfig(**SHAPE, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
    "dynamic-rope": LlamaConfig(**SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}),
    "llama-biases": LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True),
    "gemma2": Gemma2Config(**GEMMA, attn_logit_softcapping=0.5, final_logit_softcapping=0.7),
    "gemma3": Gemma3TextConfig(**GEMMA, rope_parameters=GEMMA3_ROPE),
    "mistral": MistralConfig(**SHAPE, sliding_window=256),
    "mistral-window": MistralConfig(**SHAPE, sliding_window=30),
    "qwen2": Qwen2Config(**{**SHAPE, "hidden_size": 192}),
    "qwen2-tied": Qwen2Config(**{**SHAPE, "hidden_size": 192, "tie_word_embeddings": True}),
    "qwen2-windows": Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=40, max_window_layers=2),
    "qwen2-yarn": Qwen2Config(**{**SHAPE, "hidden_size": 192}, rope_parameters=YARN_ROPE),
    "qwen3": Qwen3Config(**SHAPE),
    "qwen3-tied": Qwen3Config(**{**SHAPE, "tie_word_embeddings": True}),
    "phi3": Phi3Config(**PHI3),
    "phi3-window": Phi3Config(**PHI3, sliding_window=33),
    "phi4": Phi3Config(**PHI4, rope_parameters={"rope_type": "default", "rope_theta": 25e4}),
    "phi4-mini": Phi3Config(
        **{**PHI4, "tie_word_embeddings": True},
        rope_parameters={**LONG_ROPE, "partial_rotary_factor": 0.5},
        original_max_position_embeddings=256,
    ),
    "phi3-longrope": Phi3Config(**PHI3, rope_parameters=LONG_ROPE, original_max_position_embeddings=256),
}
FAMILIES = ["llama", "mistral-window", "qwen2-tied", "qwen2-yarn", "qwen3", "phi3", "phi3-longrope", "gemma2", "gemma3"]
LONG_ROPE_KEYS = {
    "attention.sliding_window": 0,
    "rope.scaling.original_context_length": 256,
    "rope.scaling.attn_factor": (1 + np.log(2) / np.log(256)) ** 0.5,
}
# The architecture in llama.cpp, and what its converter writes beside the shape.
GGUF_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2": (
        "gemma2",
        {
            "attention.sliding_window": 21,
            "attention.sliding_window_pattern": [True, False, True],
            "attn_logit_softcapping": 0.5,
            "final_logit_softcapping": 0.7,
            "attention.scale": 24**-0.5,
        },
    ),
    "gemma3": (
        "gemma3",
        {
            "attention.sliding_window": 21,
            "attention.sliding_window_pattern": [True, False, True],
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "attention.scale": 24**-0.5,
        },
    ),
    "llama": ("llama", {}),
    "mistral": ("llama", {}),
    "linear-rope": ("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", {}),
    "qwen2-yarn": (
        "qwen2",
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64},
    ),
    "qwen3": ("qwen3", {}),
    "phi3": ("phi3", {"attention.sliding_window": 256}),
    "phi3-longrope": ("phi3", LONG_ROPE_KEYS),
    "phi4-mini": ("phi3", LONG_ROPE_KEYS),
}
EXACT = EngineConfig(model="", max_model_len=256, kv_cache_dtype="float32", dtype="float32", max_num_seqs=4)


def save(config: PretrainedConfig, folder: Path, **options: Any) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):  # fresh models have ones and zeros here, which hide mistakes
            parameter.data = torch.rand_like(parameter) + 0.5
    model.save_pretrained(folder, **options)
    return model


def logits_of(runner: Runner, prompt: list[int]) -> np.ndarray:
    """The last token's logits over scattered blocks: the prompt in two chunks, its last token as in decode."""
    sequence = Sequence("r", prompt, SamplingParams())
    sequence.block_table = [5, 2, 9, 0, 7, 3, 1, 8][: -(-len(prompt) // 16)]
    first = len(prompt) // 3
    for count in filter(None, (first, len(prompt) - first - 1, 1)):
        batch = ScheduledBatch([ScheduledSequence(sequence, count, 1)])
        fill_step(runner.step, batch.items)
        logits, _ = runner.forward()
        sequence.num_computed_tokens += count
    return logits.numpy()[0].copy()


def assert_logits_equal(runner: Runner, model: Any, name: str, lengths: tuple[int, ...] = (1, 2, 49, 128)) -> None:
    for length in lengths:
        prompt = np.random.default_rng(length).integers(0, 300, length).tolist()
        with torch.inference_mode():
            expected = model(torch.tensor([prompt])).logits[0, -1].numpy()
        assert_close(logits_of(runner, prompt), expected, 1e-5, f"{name}, {length} tokens")


@pytest.mark.parametrize("runner_class", [NativeRunner, TorchRunner])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_transformers(name: str, runner_class: Any, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    assert_logits_equal(runner_class(EXACT, open_weights(tmp_path)), model, name)


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_tokens_equal_transformers_through_chunks_and_decode(name: str, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    config = replace(EXACT, max_num_batched_tokens=32)
    prompts = [np.random.default_rng(length).integers(0, 300, length).tolist() for length in (1, 15, 40, 100)]
    outputs = generate(Engine.create(NativeRunner(config, open_weights(tmp_path)), config), prompts)
    for prompt, output in zip(prompts, outputs, strict=True):
        assert reference_logits(model, prompt, output).argmax(-1).tolist() == output


@pytest.mark.parametrize("name", GGUF_CASES)
def test_logits_of_a_gguf_file_equal_transformers(name: str, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    architecture, extras = GGUF_CASES[name]
    path = write_as_gguf(model, tmp_path / "model.gguf", architecture, extras)
    assert_logits_equal(NativeRunner(EXACT, open_weights(path)), model, name, (49, 128))


def test_a_folder_in_several_files_is_the_same_model(tmp_path: Path) -> None:
    model = save(CONFIGS["phi3"], tmp_path, max_shard_size="400KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_logits_equal(TorchRunner(EXACT, open_weights(tmp_path)), model, "phi3", (49,))


def test_a_context_past_which_a_model_would_be_computed_wrongly_is_refused(tmp_path: Path) -> None:
    model = save(CONFIGS["phi3-longrope"], tmp_path)
    weights = open_weights(tmp_path)
    habit = r"\(longrope\) in texts of more than 256 tokens"
    with pytest.raises(ConfigurationError, match=rf"{habit}.* --max-model-len to at most 256 \(it is 512\)"):
        TorchRunner(replace(EXACT, max_model_len=None), weights)
    with pytest.raises(ConfigurationError, match=habit):
        TorchRunner(replace(EXACT, max_model_len=257), weights)
    runner = TorchRunner(replace(EXACT, max_model_len=256), weights)
    assert_logits_equal(runner, model, "at the limit", (128,))


def test_a_context_stretched_by_yarn_is_as_long_as_it_was_stretched_to(tmp_path: Path) -> None:
    save(Qwen2Config(**{**SHAPE, "max_position_embeddings": 64}, rope_parameters=YARN_ROPE), tmp_path)
    assert open_weights(tmp_path).config.max_position == 256


def test_weights_in_bfloat16_stay_so_and_lose_little(tmp_path: Path) -> None:
    model = save(CONFIGS["llama"], tmp_path)
    prompt = list(range(50))
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[0, -1].numpy()
    config = EngineConfig(model="", max_model_len=256, dtype="bfloat16", max_num_seqs=4)
    runner = NativeRunner(config, open_weights(tmp_path))
    assert runner.weight_bytes < NativeRunner(EXACT, open_weights(tmp_path)).weight_bytes * 0.6
    assert_close(logits_of(runner, prompt), expected, 2e-2)


def test_a_context_longer_than_the_model_is_refused_with_both_numbers(tmp_path: Path) -> None:
    save(CONFIGS["llama"], tmp_path)
    with pytest.raises(ConfigurationError, match=r"--max-model-len is 513; .* at most 512"):
        NativeRunner(EngineConfig(model="", max_model_len=513), open_weights(tmp_path))


def test_too_little_memory_for_one_request_says_what_would_fit(tmp_path: Path) -> None:
    save(CONFIGS["llama"], tmp_path)
    with pytest.raises(ConfigurationError, match=r"512 tokens needs 0\.375 MiB .* at most 336"):
        NativeRunner(EngineConfig(model="", kv_cache_memory=2**18), open_weights(tmp_path))
    with pytest.raises(ConfigurationError, match=r"give more by --kv-cache-memory$"):
        NativeRunner(EngineConfig(model="", kv_cache_memory=2**10), open_weights(tmp_path))


def test_an_architecture_that_no_family_implements_is_refused_by_name(tmp_path: Path) -> None:
    save(CONFIGS["llama"], tmp_path)
    weights = open_weights(tmp_path)
    object.__setattr__(weights.config, "architecture", "mamba")
    with pytest.raises(ValueError, match=r"'mamba' is not supported; known: .*llama.*qwen3"):
        models.create(weights.config, None, 16)  # type: ignore[arg-type]
