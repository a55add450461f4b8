from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from native_engine.loading.errors import ModelError
from native_engine.loading.gguf import GGUFModel
from tests.native_engine import tiny_model
from tests.native_engine.tiny_model import write_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def test_metadata_is_what_the_library_reads(path: Path) -> None:
    ours, theirs = GGUFModel.open(path).metadata, GGUFReader(path).fields
    assert ours.keys() == theirs.keys()
    for key, field in theirs.items():
        assert ours[key] == field.contents(), key


def test_tensors_are_the_bytes_in_the_file(path: Path) -> None:
    tensor = GGUFModel.open(path).tensors["blk.1.ffn_down.weight"]
    expected = tiny_model.tensors(len(tiny_model.vocabulary()))["blk.1.ffn_down.weight"]
    assert (tensor.type_name, tensor.shape) == ("F32", expected.shape)
    assert np.array_equal(tensor.data.view(np.float32), expected)


def test_tensors_stay_in_the_file_until_they_are_read(path: Path) -> None:
    tensor = GGUFModel.open(path).tensors["token_embd.weight"]
    base = tensor.data
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_the_configuration_is_read_from_metadata_and_tensors(path: Path) -> None:
    config = GGUFModel.open(path).config()
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (2, 4, 2, 32)
    assert config.vocab_size == len(tiny_model.vocabulary())
    assert config.tie_embeddings
    assert config.eos_token_ids == {tiny_model.TURN_END, tiny_model.END_OF_TEXT}
    assert config.chat_template == tiny_model.TEMPLATE


def test_a_linear_rope_scaling_is_kept(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m", llama__rope__scaling__type="linear", llama__rope__scaling__factor=4.0)
    assert GGUFModel.open(path).config().rope_scaling == {"rope_type": "linear", "factor": 4.0}


def test_yarn_is_read_and_stretches_the_context(tmp_path: Path) -> None:
    keys = {"type": "yarn", "factor": 4.0, "original_context_length": 128, "yarn_beta_fast": 16.0}
    path = write_gguf(tmp_path / "m", **{f"llama__rope__scaling__{key}": value for key, value in keys.items()})
    config = GGUFModel.open(path).config()
    expected = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 16.0}
    assert (config.rope_scaling, config.max_position) == (expected, 512)


@pytest.mark.parametrize("key", ["attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier"])
def test_a_yarn_of_another_kind_is_refused_by_the_key(tmp_path: Path, key: str) -> None:
    changes = {"llama__rope__scaling__type": "yarn", f"llama__rope__scaling__{key}": 0.5}
    with pytest.raises(ModelError, match=rf"rope\.scaling\.{key} is not supported"):
        GGUFModel.open(write_gguf(tmp_path / "m", **changes)).config()


@pytest.mark.parametrize(("written", "window"), [(0, None), (100, 100)])
def test_a_sliding_window_is_read(tmp_path: Path, written: int, window: int | None) -> None:
    path = write_gguf(tmp_path / "m", architecture="phi3", phi3__attention__sliding_window=written)
    assert GGUFModel.open(path).config().windows == (window,) * 2


def test_a_part_of_each_head_may_turn_but_for_rows_in_llamas_order(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "phi", architecture="phi3", phi3__rope__dimension_count=4)
    assert GGUFModel.open(path).config().rotary_dim == 4
    with pytest.raises(ModelError, match="a part of each head"):
        GGUFModel.open(write_gguf(tmp_path / "llama", llama__rope__dimension_count=4)).config()
    with pytest.raises(ModelError, match="34 of a head's 32 dimensions cannot turn"):
        GGUFModel.open(write_gguf(tmp_path / "much", architecture="phi3", phi3__rope__dimension_count=34)).config()


@pytest.mark.parametrize("share", [0.001, 0.05, 0.3, 0.6, 0.9, 0.999])
def test_a_file_cut_short_is_told_as_such(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelError, match=r"tiny\.gguf: .*(cut short or damaged|not a GGUF file)"):
        GGUFModel.open(path)


def test_another_kind_of_file_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ModelError, match="not a GGUF file"):
        GGUFModel.open(path)
    with pytest.raises(ModelError, match="cannot be opened"):
        GGUFModel.open(tmp_path / "missing.gguf")


def test_an_unknown_architecture_is_named_with_the_known_ones(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", architecture="mamba")
    with pytest.raises(ModelError, match=r"'mamba' is not supported; known: .*llama, phi3, qwen2, qwen3"):
        GGUFModel.open(path).config()


@pytest.mark.parametrize(("architecture", "ends"), [("gpt-oss", {0, 2}), ("llama", {0, 1, 2})])
def test_a_message_that_gpt_oss_ends_is_not_the_end_of_its_answer(
    tmp_path: Path, architecture: str, ends: set[int]
) -> None:
    tokens = ["<|return|>", "<|end|>", "<|call|>", *tiny_model.vocabulary()[3:]]
    path = write_gguf(tmp_path / "m.gguf", architecture=architecture, tokenizer__ggml__tokens=tokens)
    assert GGUFModel.open(path).config().eos_token_ids == ends


def test_experts_that_cannot_be_are_refused_with_their_numbers(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", llama__expert_count=8, llama__expert_used_count=9)
    with pytest.raises(ModelError, match="9 of 8 experts"):
        GGUFModel.open(path).config()
    with pytest.raises(ModelError, match=r"llama\.expert_used_count"):
        GGUFModel.open(write_gguf(tmp_path / "m.gguf", llama__expert_count=8)).config()


def test_a_missing_figure_is_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", without=frozenset({"llama.block_count"}))
    with pytest.raises(ModelError, match=r"llama\.block_count"):
        GGUFModel.open(path).config()


def test_damaged_bytes_anywhere_in_the_header_never_escape_as_another_error(path: Path) -> None:
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[int(random.integers(4, 6000))] = int(random.integers(0, 256))
        path.write_bytes(damaged)
        with contextlib.suppress(ModelError):
            GGUFModel.open(path).config()
