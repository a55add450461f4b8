"""A decoder that makes embeddings, against transformers' model without a head, on small random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3Model

from native_engine import last_token
from native_engine.config import EngineConfig
from native_engine.embedder import Vector
from native_engine.encoder import load_encoder
from native_engine.llm import LLM
from native_engine.loading.encoder_config import is_encoder
from native_engine.loading.errors import ModelError
from native_engine.loading.text_encoder import TextEncoder
from native_engine.loading.tokenizer import load_tokenizer
from tests.native_engine import tiny_model

CONFIG = EngineConfig(model="", max_num_batched_tokens=24, max_num_seqs=4, kv_cache_dtype="float32", dtype="float32")
TOKENS = len(tiny_model.vocabulary())
INPUTS = [np.random.default_rng(length).integers(0, TOKENS, length).tolist() for length in (1, 40, 3, 17)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Qwen3-Embedding is published: without a head, its modules beside it, EOS appended by the tokenizer."""
    return write_embedder(tmp_path_factory.mktemp("embedder"))


def write_embedder(folder: Path, pooling: str = "lasttoken") -> Path:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=TOKENS,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=128,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    Qwen3Model(config).save_pretrained(folder)
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in MODULES]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
    changes: dict[str, Any] = {"tokenizer__ggml__add_eos_token": True, "tokenizer__ggml__add_bos_token": False}
    gguf = tiny_model.write_gguf(folder / "tokenizer.gguf", **changes)
    (folder / "tokenizer.json").write_text(load_tokenizer(gguf)._backend.to_str())
    return folder


MODULES = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))


@torch.inference_mode()
def reference(folder: Path, inputs: list[list[int]]) -> Vector:
    model = Qwen3Model.from_pretrained(folder).float().eval()
    states = torch.stack([model(torch.tensor([each])).last_hidden_state[0, -1] for each in inputs])
    return np.asarray(torch.nn.functional.normalize(states).numpy())


@pytest.mark.parametrize("native", [True, False])
def test_vectors_are_the_last_tokens_states_of_transformers(
    native: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(last_token, "available", lambda: False)
    encoder = load_encoder(CONFIG, folder)
    found = encoder.encode(INPUTS)
    assert (encoder.dimensions, encoder.max_model_len) == (64, 128)
    assert np.abs(found - reference(folder, INPUTS)).max() < 1e-5
    for each, vector in zip(INPUTS, found, strict=True):
        assert np.array_equal(encoder.encode([each])[0], vector) or not native


def test_the_offline_class_embeds_texts_each_with_its_end_of_text(folder: Path) -> None:
    assert is_encoder(folder)
    llm = LLM(str(folder), max_num_batched_tokens=24, max_num_seqs=4, kv_cache_dtype="float32")
    texts = ["hello world", "12", "world hello " * 9]
    tokens = [TextEncoder(folder).encode(text) for text in texts]
    assert all(each[-1] == tiny_model.TURN_END for each in tokens)
    whole = reference(folder, tokens)
    assert np.abs(llm.embed(texts) - whole).max() < 1e-5
    short = whole[:, :16] / np.linalg.norm(whole[:, :16], axis=1, keepdims=True)
    assert np.abs(llm.embed(texts, dimensions=16) - short).max() < 1e-5
    with pytest.raises(ValueError, match="dimensions is 65, but the vectors of this model have 64"):
        llm.embed(texts, dimensions=65)


def test_pooling_that_a_decoder_is_not_pooled_by_is_refused(tmp_path: Path) -> None:
    folder = write_embedder(tmp_path, pooling="mean_tokens")
    assert is_encoder(folder)
    with pytest.raises(ModelError, match="pooling by mean of a decoder's tokens is not supported; known: last"):
        load_encoder(CONFIG, folder)


@pytest.mark.parametrize(("pooling", "embeds"), [(None, False), (0, False), (3, True)])
def test_a_gguf_file_makes_embeddings_where_it_says_how_it_pools(
    pooling: int | None, embeds: bool, tmp_path: Path
) -> None:
    changes = {} if pooling is None else {"llama__pooling_type": pooling}
    path = tiny_model.write_gguf(tmp_path / "m.gguf", tokenizer__ggml__add_eos_token=True, **changes)
    assert is_encoder(path) == embeds
    if embeds:
        encoder = load_encoder(CONFIG, path)
        tokens = TextEncoder(path).encode("hello world")
        assert tokens[-1] == tiny_model.TURN_END
        assert np.linalg.norm(encoder.encode([tokens])[0]) == pytest.approx(1, abs=1e-5)


def test_a_gguf_file_of_a_reranker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="pooling by rank"):
        load_encoder(CONFIG, tiny_model.write_gguf(tmp_path / "m.gguf", llama__pooling_type=4))
