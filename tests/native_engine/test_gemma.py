"""The real Gemma 3 270M against transformers on the same weights, and its tokenizer against what Google's makes.

Runs where the model has been pulled: `sekisho models pull gemma3-270m --data-dir .cache` (253 MB).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading import store
from native_engine.loading.tokenizer import load_tokenizer
from native_engine.loading.weights import Weights, open_weights
from native_engine.model_runner import NativeRunner
from native_engine.quantization.dequantize import dequantize
from native_engine.request import SamplingParams
from tests.native_engine.conftest import CACHE
from tests.native_engine.driving import generate, reference_logits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not store.resolve("gemma3-270m", CACHE).installed,
        reason="gemma3-270m is not pulled: sekisho models pull gemma3-270m --data-dir .cache",
    ),
]
EXACT = EngineConfig(model="", max_model_len=704, max_num_seqs=4, quantization="none", kv_cache_dtype="float32")
# Longer than the window of 512 tokens in the last.
TEXTS = ["The capital of France is", "吾輩は猫である。名前は", "Once upon a time there was a lighthouse. " * 70]
TOKENS = {
    "ied 4 ½ months": [1178, 236743, 236812, 47041, 3794],
    "\t\n": [255968, 107],
    " Hello, world!": [26352, 236764, 1902, 236888],
    "    Hello\n    Hello": [140, 9259, 107, 140, 9259],
    " this is 🦙.cpp": [672, 563, 236743, 478, 397, 404, 391, 236761, 12362],
    "нещо на Български": [1337, 12515, 1333, 4632, 165543, 3830],
    "333": [236800, 236800, 236800],
}


@pytest.fixture(scope="module")
def path() -> Path:
    return store.pull("gemma3-270m", CACHE)


@pytest.fixture(scope="module")
def weights(path: Path) -> Weights:
    return open_weights(path)


@pytest.fixture(scope="module")
def transformers_model(weights: Weights) -> Gemma3ForCausalLM:
    """The same dequantised weights in float32; its norms are stored around zero."""
    config = weights.config
    shape = Gemma3TextConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_position,
        sliding_window=512,
        query_pre_attn_scalar=256,
    )
    state = {name: torch.from_numpy(dequantize(weights.get(name))) for name in weights.names()}
    state = {name: tensor - 1 if "norm" in name else tensor for name, tensor in state.items()}
    model = Gemma3ForCausalLM(shape)
    assert not model.load_state_dict(state, strict=False).unexpected_keys
    return model.eval()


def test_texts_become_the_tokens_of_googles_tokenizer(path: Path) -> None:
    tokenizer = load_tokenizer(path)
    for text, expected in TOKENS.items():
        assert tokenizer.encode(text, add_special=False) == expected
        assert tokenizer.decode(expected) == text
    assert tokenizer.encode("a")[0] == tokenizer._backend.token_to_id("<bos>")


def test_greedy_tokens_equal_transformers_token_for_token(
    path: Path, weights: Weights, transformers_model: Gemma3ForCausalLM
) -> None:
    tokenizer = load_tokenizer(path)
    prompts = [tokenizer.encode(text) for text in TEXTS]
    assert len(prompts[-1]) > 600
    params = SamplingParams(max_tokens=32, temperature=0.0, ignore_eos=True)
    outputs = generate(Engine.create(NativeRunner(EXACT, weights), EXACT), prompts, params)
    for prompt, output in zip(prompts, outputs, strict=True):
        assert reference_logits(transformers_model, prompt, output).argmax(-1).tolist() == output
