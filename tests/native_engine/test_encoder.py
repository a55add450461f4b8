"""The engine's vectors against transformers with the pooling that sentence-transformers publishes, same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertModel

from native_engine.config import EngineConfig
from native_engine.embedder import Vector
from native_engine.encoder import Encoder, load_encoder
from native_engine.llm import LLM
from native_engine.loading import store
from native_engine.loading.encoder_config import encoder_config, is_encoder
from native_engine.loading.errors import ModelError
from native_engine.loading.text_encoder import TextEncoder
from native_engine.sizing import ConfigurationError
from tests.native_engine.conftest import CACHE
from tests.native_engine.tiny_encoder import CLS, HIDDEN, LONGEST, POSITIONS, SEP, write_encoder

CONFIG = EngineConfig(model="any", num_threads=1)
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "東京は日本の首都です。",
    "Hi",
    "A lighthouse stands by the sea, and its light turns all night. " * 12,
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 4,
    "def main() -> None:\n    print('héllo, wörld')",
]


def reference(folder: Path, inputs: list[list[int]], pooling: str = "mean") -> Vector:
    """One padded batch with a mask; then as sentence-transformers pools: the mean over the mask, or the first."""
    model = BertModel.from_pretrained(folder).eval()
    ids, mask = torch.zeros(2, len(inputs), max(map(len, inputs)), dtype=torch.long)
    for row, each in enumerate(inputs):
        ids[row, : len(each)], mask[row, : len(each)] = torch.tensor(each), 1
    with torch.inference_mode():
        tokens = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = mask[..., None].float()
    pooled = (tokens * weights).sum(1) / weights.sum(1) if pooling == "mean" else tokens[:, 0]
    return np.asarray(pooled.numpy())


def cosines(first: Vector, second: Vector) -> Vector:
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first.astype(np.float64) * second).sum(axis=1) / norms)


@pytest.mark.slow
def test_real_vectors_equal_those_of_transformers() -> None:
    folder = store.pull("all-minilm-l6-v2", CACHE)
    encoder, texts = load_encoder(CONFIG, folder), TextEncoder(folder)
    inputs = [texts.encode(text) for text in TEXTS]
    assert max(map(len, inputs)) > 128  # where the published tokenizer.json would cut
    found = encoder.encode(inputs)
    assert np.abs(cosines(found, reference(folder, inputs)) - 1).max() < 1e-5
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    alone = np.concatenate([encoder.encode([each]) for each in inputs])
    assert np.abs(alone - found).max() < 1e-6


@pytest.mark.slow
def test_real_vectors_know_what_is_alike() -> None:
    cat, kitten, loan = LLM("all-minilm-l6-v2", data_dir=CACHE).embed(
        ["A cat sits on the mat.", "A kitten is sitting on a rug.", "The bank refused my loan."]
    )
    assert cat @ kitten > 0.5 > 0.2 > cat @ loan


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("modules", [("Pooling",), ("Pooling", "Normalize")])
def test_pooling_and_normalising_are_as_the_folder_says(pooling: str, modules: tuple[str, ...], tmp_path: Path) -> None:
    folder = write_encoder(
        tmp_path / "m", pooling={"mean": "mean_tokens", "cls": "cls_token"}[pooling], modules=modules
    )
    inputs = [[CLS, 4, 5, SEP], [CLS, SEP], [CLS, *[6, 7, 8] * 4, SEP]]
    wanted = reference(folder, inputs, pooling)
    if "Normalize" in modules:
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.abs(load_encoder(CONFIG, folder).encode(inputs) - wanted).max() < 1e-5


def test_offline_vectors_are_those_of_the_inputs_one_by_one(tmp_path: Path) -> None:
    llm = LLM(str(write_encoder(tmp_path / "m")), max_num_seqs=2, max_num_batched_tokens=8)
    texts = ["the sea", "海は青い", "cold", "the sea is blue and cold"]
    together = llm.embed(texts)
    assert together.shape == (4, HIDDEN)
    assert np.abs(together - np.concatenate([llm.embed(text) for text in texts])).max() < 1e-6
    with pytest.raises(ValueError, match=f"input 1: 30 tokens, and {LONGEST} at most"):
        llm.embed(["sea", "sea " * 28])
    with pytest.raises(ValueError, match="makes embeddings"):
        llm.generate("the sea")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "relu"}, "hidden_act 'relu' is not supported"),
        ({"is_decoder": True}, "is_decoder True is not supported"),
        ({"layer_norm_eps": None}, "config.json: TypeError"),
        ({"pooling": "max_tokens"}, "pooling by"),
        ({"modules": ("Pooling", "Dense")}, "a module 'Dense' is not supported"),
    ],
)
def test_what_would_be_computed_wrongly_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        encoder_config(write_encoder(tmp_path / "m", **changes))


def test_a_folder_without_modules_is_averaged_and_left_long(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "m")
    for name in ("modules.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    config = encoder_config(folder)
    assert (config.pooling, config.normalize, config.max_seq_length) == ("mean", False, POSITIONS)


def test_inputs_may_be_as_long_as_the_model_has_positions_and_no_longer(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "m")

    def load(**settings: Any) -> Encoder:
        return load_encoder(EngineConfig(model="any", **settings), folder)

    assert (load().max_model_len, load(max_model_len=POSITIONS).max_model_len) == (LONGEST, POSITIONS)
    with pytest.raises(ConfigurationError, match=f"max-model-len is {POSITIONS + 1}; m holds at most {POSITIONS}"):
        load(max_model_len=POSITIONS + 1)
    with pytest.raises(ConfigurationError, match="float32"):
        load(dtype="bfloat16")
    with pytest.raises(ConfigurationError, match="--quantization is int8"):
        load(quantization="int8")


def test_a_text_is_never_cut_or_filled_up(tmp_path: Path) -> None:
    texts = TextEncoder(write_encoder(tmp_path / "m"))
    assert texts.encode("sea") == [CLS, 5, SEP]
    assert len(texts.encode("sea " * 30)) == 32
    assert texts.encode("sea", add_special=False) == [5]


def test_a_folder_of_another_kind_is_no_encoder(tmp_path: Path) -> None:
    assert is_encoder(write_encoder(tmp_path / "m"))
    assert not is_encoder(write_encoder(tmp_path / "l", model_type="llama", modules=()))
    assert not is_encoder(tmp_path)
