"""What the arithmetic needs to know of a model, and how to read it from a Hugging Face folder. Knows no tensor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from native_engine.loading import gemma
from native_engine.loading.errors import ModelError
from native_engine.loading.expert_config import ExpertConfig, experts_of_json
from native_engine.loading.rope import rope_of_json, rotary_share, stretched_length
from native_engine.loading.windows import Windows, windows_of_json

# Hugging Face `model_type` -> our architecture. Mistral is arithmetically a Llama with a sliding window.
KNOWN_MODEL_TYPES = {
    "gpt_oss": "gpt-oss",
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    **gemma.MODEL_TYPES,
}
Activation = Literal["silu", "gelu_tanh", "clamped_silu"]  # as the kernels name them
_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True)
class ModelConfig:
    """`head_dim` need not be hidden_size / num_heads. `rope_scaling` has "rope_type" and that type's parameters.

    windows: how many tokens, itself among them, a token sees in each layer; None is all (the default for every layer).
    rotary_dim: how many dimensions of a head turn with the position, the first ones; by default all of head_dim.
    attention_scale: what scores are multiplied by; head_dim^-1/2 by default.
    attention_soft_cap, final_soft_cap: scores, and logits, become cap * tanh(x / cap).
    embedding_scale: what the embedding's rows are multiplied by.
    norm_offset: what is added to the norms' weights as this file has them (Gemma's are stored around zero).
    local_rope_theta: the base of rotary positions, unscaled, in layers with a window where they have their own.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    max_position: int
    tie_embeddings: bool
    qk_norm: bool
    bos_token_id: int | None
    eos_token_ids: frozenset[int]
    chat_template: str | None
    name: str
    windows: Windows = ()
    rotary_dim: int = 0
    attention_scale: float = 0.0
    attention_soft_cap: float | None = None
    final_soft_cap: float | None = None
    activation: Activation = "silu"
    experts: ExpertConfig | None = None
    embedding_scale: float = 1.0
    norm_offset: float = 0.0
    local_rope_theta: float | None = None

    def __post_init__(self) -> None:
        sizes = (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_layers",
            "num_heads",
            "num_kv_heads",
            "head_dim",
        )
        wrong = [f"{field}={getattr(self, field)}" for field in (*sizes, "max_position") if getattr(self, field) < 1]
        if wrong:
            raise ModelError(f"{self.name}: the model's description is damaged: {', '.join(wrong)} must be at least 1.")
        if self.num_heads % self.num_kv_heads or self.head_dim % 2:
            raise ModelError(
                f"{self.name}: {self.num_heads} attention heads cannot share {self.num_kv_heads} KV heads "
                f"of {self.head_dim} dimensions; the model's description is damaged."
            )
        for field, default in (
            ("windows", (None,) * self.num_layers),
            ("rotary_dim", self.head_dim),
            ("attention_scale", self.head_dim**-0.5),
        ):
            object.__setattr__(self, field, getattr(self, field) or default)
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.head_dim:
            raise ModelError(f"{self.name}: {self.rotary_dim} of a head's {self.head_dim} dimensions cannot turn.")


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file; an absent file is an empty object."""
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ModelError(f"{path}: not readable as JSON ({fault}). Fetch the model again.") from fault
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object. Fetch the model again.")
    return value


def token_ids(value: Any) -> frozenset[int]:
    """`eos_token_id` as people write it: absent, one number, or a list."""
    if value is None:
        return frozenset()
    return frozenset(int(each) for each in (value if isinstance(value, list) else [value]))


def config_from_folder(folder: Path) -> ModelConfig:
    """config.json with the end-of-text ids of generation_config.json and the template of tokenizer_config.json."""
    raw = read_json(folder / "config.json")
    if not raw:
        raise ModelError(f"{folder}: no config.json here. Expected a Hugging Face model folder or a .gguf file.")
    try:
        return _from_json(folder, raw)
    except (KeyError, TypeError, ValueError) as fault:
        raise ModelError(f"{folder / 'config.json'}: {type(fault).__name__} {fault}. Fetch the model again.") from fault


def _from_json(folder: Path, raw: Mapping[str, Any]) -> ModelConfig:
    architecture = _architecture(folder, raw)
    if architecture in gemma.ARCHITECTURES:
        raw = gemma.with_defaults(raw)
    _refuse_unknown_arithmetic(folder, raw)
    heads = int(raw["num_attention_heads"])
    hidden = int(raw["hidden_size"])
    generation = read_json(folder / "generation_config.json")
    head_dim = int(raw.get("head_dim") or hidden // heads)
    theta, scaling = rope_of_json(raw)
    return ModelConfig(
        architecture=architecture,
        vocab_size=int(raw["vocab_size"]),
        hidden_size=hidden,
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=int(raw["num_hidden_layers"]),
        num_heads=heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        rotary_dim=int(head_dim * rotary_share(raw)),
        rms_norm_eps=float(raw["rms_norm_eps"]),
        rope_theta=theta,
        rope_scaling=scaling,
        max_position=stretched_length(scaling, int(raw["max_position_embeddings"])),
        windows=windows_of_json(raw, int(raw["num_hidden_layers"])),
        tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qk_norm=architecture in ("gemma3", "qwen3", "qwen3moe"),
        experts=experts_of_json(raw),
        activation="clamped_silu" if architecture == "gpt-oss" else _ACTIVATIONS[_activation(raw)],
        bos_token_id=min(token_ids(raw.get("bos_token_id")), default=None),
        eos_token_ids=token_ids(raw.get("eos_token_id")) | token_ids(generation.get("eos_token_id")),
        chat_template=_chat_template(folder),
        name=folder.name,
        **(gemma.fields_of_json(raw) if architecture in gemma.ARCHITECTURES else {}),
    )


def _architecture(folder: Path, raw: Mapping[str, Any]) -> str:
    model_type = raw.get("model_type")
    if model_type not in KNOWN_MODEL_TYPES:
        raise ModelError(
            f"{folder}: model type {model_type!r} is not supported; known: {', '.join(sorted(KNOWN_MODEL_TYPES))}."
        )
    return KNOWN_MODEL_TYPES[model_type]


def _activation(raw: Mapping[str, Any]) -> str:
    return str(raw.get("hidden_activation") or raw.get("hidden_act") or "silu")


def _refuse_unknown_arithmetic(folder: Path, raw: Mapping[str, Any]) -> None:
    if _activation(raw) not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise ModelError(f"{folder}: activation {_activation(raw)!r} is not supported; known: {known}.")
    if raw.get("use_bidirectional_attention"):
        raise ModelError(f"{folder}: attention to later tokens (use_bidirectional_attention) is not supported.")


def _chat_template(folder: Path) -> str | None:
    separate = folder / "chat_template.jinja"
    if separate.exists():
        return separate.read_text(encoding="utf-8")
    template = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # named variants; the plain one serves chat
        template = {each.get("name"): each.get("template") for each in template}.get("default")
    return template if isinstance(template, str) else None
