from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.loading.errors import ModelError
from native_engine.loading.gguf_tokenizer import build_tokenizer, merges_from_scores
from native_engine.loading.pretokenizers import PRE_TOKENIZERS
from native_engine.loading.tokenizer import Tokenizer, load_tokenizer
from native_engine.text.detokenize import IncrementalText
from tests.native_engine import tiny_model
from tests.native_engine.tiny_model import write_gguf

FAMILY = "👨‍👩‍👧‍👦"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(write_gguf(tmp_path_factory.mktemp("tokenizer") / "tiny.gguf"))


def cuts(pre: str, text: str) -> list[str]:
    """The pieces that a pre-tokenizer makes, in readable letters."""
    found = [piece for piece, _ in PRE_TOKENIZERS[pre].build().pre_tokenize_str(text)]
    return [bytes(tiny_model._LETTERS[letter] for letter in piece).decode() for piece in found]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["It", "'s", " 1234", " km", " \n", "\n", "x"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", " km", " \n", "\n", "x"]),
        ("llama-bpe", ["It", "'s", " ", "123", "4", " km", " \n\n", "x"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", " km", " \n\n", "x"]),
        ("tekken", ["It", "'s", " ", "1", "2", "3", "4", " km", " \n\n", "x"]),
        ("dbrx", ["It", "'s", " ", "123", "4", " km", " \n\n", "x"]),
        ("gpt-4o", ["It's", " ", "123", "4", " km", " \n\n", "x"]),
    ],
)
def test_each_pre_tokenizer_cuts_as_its_family_does(pre: str, expected: list[str]) -> None:
    assert cuts(pre, "It's 1234 km \n\nx") == expected


def test_merges_and_special_tokens_are_used(tokenizer: Tokenizer) -> None:
    texts = tiny_model.vocabulary()
    ids = tokenizer.encode("<|im_start|>hello world 12<think>")
    assert [texts[token] for token in ids] == ["<|im_start|>", "hello", "Ġworld", "Ġ", "1", "2", "<think>"]
    assert tokenizer.decode(ids) == "hello world 12<think>"


def test_special_tokens_have_no_text_and_unknown_ids_neither(tokenizer: Tokenizer) -> None:
    assert [tokenizer.id_to_bytes(token) for token in (0, 1, 2, 10**6, -1)] == [b""] * 5
    assert tokenizer.id_to_bytes(tokenizer.vocab_size - 1) == b"<think>"


def test_the_end_of_text_is_every_token_that_ends_a_turn(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_token_ids == {tiny_model.END_OF_TEXT, tiny_model.TURN_END}
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")


@pytest.mark.parametrize("text", ["🎌", FAMILY, "日本語のテキスト", "Ünïcödé", "\x00\x7f\xa0", "  \n\n\t x"])
def test_text_survives_the_way_there_and_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    stream = IncrementalText(tokenizer.id_to_bytes)
    assert "".join(stream.push([token]) for token in ids) == text


@given(text=st.text())
def test_pieces_join_to_the_decode_of_the_whole_and_are_never_broken(tokenizer: Tokenizer, text: str) -> None:
    ids, stream = tokenizer.encode(text, add_special=False), IncrementalText(tokenizer.id_to_bytes)
    pieces = [stream.push([token]) for token in ids]
    assert "".join(pieces) == tokenizer.decode(ids)
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


@given(ids=st.lists(st.integers(0, len(tiny_model.vocabulary()) - 2)))
def test_any_tokens_stream_to_what_the_library_decodes(tokenizer: Tokenizer, ids: list[int]) -> None:
    stream = IncrementalText(tokenizer.id_to_bytes)
    assert "".join(stream.push([token]) for token in ids) + stream.flush() == tokenizer.decode(ids)


def test_bos_is_added_only_where_the_model_wants_it_and_only_when_asked(tmp_path: Path) -> None:
    with_bos = load_tokenizer(write_gguf(tmp_path / "m.gguf", tokenizer__ggml__add_bos_token=True))
    assert with_bos.encode("hello")[0] == tiny_model.TURN_START
    assert with_bos.encode("hello", add_special=False)[0] != tiny_model.TURN_START


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer__ggml__pre": "klingon"}, r"'klingon' is not supported; known: .*gpt-2.*qwen2"),
        ({"tokenizer__ggml__model": "t5"}, r"'t5' is not supported; known: gpt2, llama"),
        ({"tokenizer__ggml__merges": ["ab"]}, "not a pair"),
    ],
)
def test_what_cannot_be_tokenised_is_refused_with_what_can(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        load_tokenizer(write_gguf(tmp_path / "m.gguf", **changes))


def test_missing_merges_are_named(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", without=frozenset({"tokenizer.ggml.merges"}))
    with pytest.raises(ModelError, match=r"tokenizer\.ggml\.merges is missing"):
        load_tokenizer(path)


SENTENCEPIECE = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>"]
    + [f"<0x{byte:02X}>" for byte in range(256)]
    + ["▁", "h", "e", "l", "o", "▁h", "el", "ell", "▁hell", "▁hello"],
    "tokenizer.ggml.scores": [0.0] * 259 + [-10.0, -10.0, -10.0, -10.0, -10.0, -1.0, -2.0, -3.0, -4.0, -5.0],
    "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 10,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
}


def test_sentencepiece_falls_back_to_bytes_and_streams_whole_characters() -> None:
    tokenizer = Tokenizer(build_tokenizer("m", SENTENCEPIECE), eos_token_ids=frozenset({2}))
    ids = tokenizer.encode("hello 🎌")
    assert [SENTENCEPIECE["tokenizer.ggml.tokens"][token] for token in ids[:2]] == ["<s>", "▁hello"]  # type: ignore[index]
    stream = IncrementalText(tokenizer.id_to_bytes)
    assert [stream.push([token]) for token in ids] == ["", " hello", " ", "", "", "", "🎌"]


def test_gemmas_runs_of_spaces_and_lines_are_tokens_and_no_space_is_put_before() -> None:
    texts: list[str] = [*SENTENCEPIECE["tokenizer.ggml.tokens"], "\n", "\n\n", "  ", "   "]  # type: ignore[misc]
    added = {"tokenizer.ggml.tokens": texts, "tokenizer.ggml.add_space_prefix": False}
    for key, value in (("scores", -1000.0), ("token_type", 4)):
        added[f"tokenizer.ggml.{key}"] = [*SENTENCEPIECE[f"tokenizer.ggml.{key}"], *[value] * 4]  # type: ignore[misc]
    tokenizer = Tokenizer(build_tokenizer("m", SENTENCEPIECE | added), eos_token_ids=frozenset({2}))
    text = "  hello\n\n\n hello   hello🎌"
    ids = tokenizer.encode(text, add_special=False)
    expected = ["  ", "h", "ell", "o", "\n\n", "\n", "▁hello", "   ", "h", "ell", "o"]
    assert [texts[token] for token in ids[:-4]] == expected
    assert [texts[token] for token in ids[-4:]] == [f"<0x{byte:02X}>" for byte in "🎌".encode()]
    assert b"".join(map(tokenizer.id_to_bytes, ids)).decode() == tokenizer.decode(ids) == text


@pytest.mark.parametrize(("architecture", "after_end"), [("phi3", ["▁hello"]), ("llama", ["▁", "<0x0A>", "h"])])
def test_control_tokens_of_phi3_take_the_white_space_behind_them_along(architecture: str, after_end: list[str]) -> None:
    texts: list[str] = SENTENCEPIECE["tokenizer.ggml.tokens"]  # type: ignore[assignment]
    tokenizer = build_tokenizer("m", SENTENCEPIECE | {"general.architecture": architecture})
    found = [texts[token] for token in tokenizer.encode("</s>\nhello", add_special_tokens=False).ids]
    assert found[: 1 + len(after_end)] == ["</s>", *after_end]
    kept = [texts[token] for token in tokenizer.encode("<s>\nhello", add_special_tokens=False).ids]
    assert kept[:4] == ["<s>", "▁", "<0x0A>", "h"]


def test_sentencepiece_scores_become_merges_best_first() -> None:
    merges = merges_from_scores({"a": 0, "b": 1, "ab": 2, "aba": 3}, [-9.0, -9.0, -2.0, -1.0])
    assert merges == [("ab", "a"), ("a", "b")]


def test_a_folder_is_read_from_its_tokenizer_json(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer._backend.to_str())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"})
    )
    config = {"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "eos_token_id": 0}
    more = {"num_hidden_layers": 1, "num_attention_heads": 1, "rms_norm_eps": 1, "max_position_embeddings": 9}
    (tmp_path / "config.json").write_text(json.dumps(config | more))
    found = load_tokenizer(tmp_path)
    assert found.encode("hello world") == tokenizer.encode("hello world")
    assert found.eos_token_ids == {0, 2}
    assert found.bos_token == "<|im_start|>"


def test_a_folder_without_a_readable_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="missing"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="not a readable tokenizer"):
        load_tokenizer(tmp_path)
