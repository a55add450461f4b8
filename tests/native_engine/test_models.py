"""Each architecture at a small size with random weights: our logits against transformers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.configuration_utils import PretrainedConfig

from kernels.testing import assert_close
from native_engine import models
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.loading.weights import open_weights
from native_engine.model_runner import NativeRunner, Runner, TorchRunner, fill_step
from native_engine.request import SamplingParams, Sequence
from native_engine.sizing import ConfigurationError

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
CONFIGS = {
    "llama": LlamaConfig(**SHAPE),
    "llama-tied": LlamaConfig(**{**SHAPE, "tie_word_embeddings": True}),
    "llama3-rope": LlamaConfig(**SHAPE, rope_parameters=LLAMA3_ROPE),
    "linear-rope": LlamaConfig(**SHAPE, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}),
    "qwen2": Qwen2Config(**{**SHAPE, "hidden_size": 192}),
    "qwen3": Qwen3Config(**SHAPE),
}
EXACT = EngineConfig(model="", max_model_len=256, kv_cache_dtype="float32", dtype="float32", max_num_seqs=4)


def save(config: PretrainedConfig, folder: Path) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):  # fresh models have ones and zeros here, which hide mistakes
            parameter.data = torch.rand_like(parameter) + 0.5
    model.save_pretrained(folder)
    return model


def logits_of(runner: Runner, prompt: list[int]) -> np.ndarray:
    """The last token's logits, the prompt computed in two chunks over scattered blocks."""
    sequence = Sequence("r", prompt, SamplingParams())
    sequence.block_table = [5, 2, 9, 0, 7, 3, 1, 8][: -(-len(prompt) // 16)]
    for count in (len(prompt) // 3, len(prompt) - len(prompt) // 3):
        batch = ScheduledBatch([ScheduledSequence(sequence, count)], count, [])
        fill_step(runner.step, batch.items)
        logits, _ = runner.forward()
        sequence.num_computed_tokens += count
    return logits.numpy()[0].copy()


@pytest.mark.parametrize("runner_class", [NativeRunner, TorchRunner])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_transformers(name: str, runner_class: Any, tmp_path: Path) -> None:
    model = save(CONFIGS[name], tmp_path)
    prompt = np.random.default_rng(1).integers(0, 300, 101).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[0, -1].numpy()
    assert_close(logits_of(runner_class(EXACT, open_weights(tmp_path)), prompt), expected, 1e-5, name)


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
    with pytest.raises(ValueError, match="'mamba' is not supported; known: llama"):
        models.create(weights.config, None, 16)  # type: ignore[arg-type]
