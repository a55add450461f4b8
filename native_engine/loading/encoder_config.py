"""What the arithmetic needs to know of a sentence encoder: a BERT folder as sentence-transformers lays it out, or how
a decoder's states become a vector."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from native_engine.loading.errors import ModelError
from native_engine.loading.gguf import GGUFModel
from native_engine.loading.model_config import read_json

Pooling = Literal["mean", "cls", "last"]

ENCODER_TYPES = frozenset({"bert"})
# What a folder may say of its arithmetic, where it says anything.
_ONLY: Mapping[str, Any] = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_POOLINGS: Mapping[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_GGUF_POOLINGS = ("none", "mean", "cls", "last", "rank")


@dataclass(frozen=True)
class EncoderConfig:
    """`max_position` tokens have a position; `max_seq_length` of them, at most, are what the model was made for."""

    name: str
    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    layer_norm_eps: float
    max_position: int
    max_seq_length: int
    pooling: Pooling
    normalize: bool


def is_encoder(path: Path) -> bool:
    """Whether the model makes embeddings; any other one generates text. A decoder makes them where its folder or file
    says how its tokens' states are pooled."""
    if path.is_file():
        return _gguf_pooling(path) != "none"
    return is_bert(path) or any(kind == "Pooling" for kind, _ in _modules(path))


def is_bert(path: Path) -> bool:
    return path.is_dir() and read_json(path / "config.json").get("model_type") in ENCODER_TYPES


def decoder_normalizes(path: Path) -> bool:
    """Whether a decoder's vectors have length 1. Raises ModelError unless a vector is the last token's state."""
    pooling, normalize = _head(path) if path.is_dir() else (_gguf_pooling(path), True)
    if pooling != "last":
        raise ModelError(f"{path}: pooling by {pooling} of a decoder's tokens is not supported; known: last.")
    return normalize


def _gguf_pooling(path: Path) -> str:
    metadata = GGUFModel.open(path).metadata
    number = metadata.get(f"{metadata.get('general.architecture')}.pooling_type", 0)
    return _GGUF_POOLINGS[number] if number in range(len(_GGUF_POOLINGS)) else str(number)


def encoder_config(folder: Path) -> EncoderConfig:
    """Raises ModelError for a folder that is damaged, and for one that asks for what is not implemented."""
    raw = read_json(folder / "config.json")
    for field, value in _ONLY.items():
        if raw.get(field, value) != value:
            raise ModelError(f"{folder}: {field} {raw[field]!r} is not supported; known: {value!r}.")
    longest = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    pooling, normalize = _head(folder)
    try:
        return EncoderConfig(
            name=folder.name,
            architecture=str(raw["model_type"]),
            vocab_size=int(raw["vocab_size"]),
            hidden_size=int(raw["hidden_size"]),
            intermediate_size=int(raw["intermediate_size"]),
            num_layers=int(raw["num_hidden_layers"]),
            num_heads=int(raw["num_attention_heads"]),
            layer_norm_eps=float(raw["layer_norm_eps"]),
            max_position=int(raw["max_position_embeddings"]),
            max_seq_length=min(int(longest or raw["max_position_embeddings"]), int(raw["max_position_embeddings"])),
            pooling=pooling,
            normalize=normalize,
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise ModelError(f"{folder / 'config.json'}: {type(fault).__name__} {fault}. Fetch the model again.") from fault


def _head(folder: Path) -> tuple[Pooling, bool]:
    """What becomes of the tokens' vectors. Without modules.json they are averaged, as sentence-transformers does."""
    pooling, normalize = _POOLINGS["pooling_mode_mean_tokens"], False
    if read_json(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        raise ModelError(f"{folder}: a default prompt before each input is not supported.")
    for kind, where in _modules(folder):
        if kind == "Pooling":
            pooling = _pooling(folder / where / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise ModelError(f"{folder}: a module {kind!r} is not supported; known: Transformer, Pooling, Normalize.")
    return pooling, normalize


def _modules(folder: Path) -> Iterator[tuple[str, str]]:
    """Kind and subfolder of each step after the other."""
    path = folder / "modules.json"
    if not path.exists():
        return
    try:
        for module in json.loads(path.read_text(encoding="utf-8")):
            yield str(module["type"]).rpartition(".")[2], str(module["path"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise ModelError(f"{path}: not readable ({fault}). Fetch the model again.") from fault


def _pooling(path: Path) -> Pooling:
    chosen = [name for name, on in read_json(path).items() if name.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in _POOLINGS:
        raise ModelError(f"{path}: pooling by {chosen or 'nothing'} is not supported; known: {', '.join(_POOLINGS)}.")
    return _POOLINGS[chosen[0]]
