"""What Gemma 2 and 3 are made of that their files leave unsaid, as fields of ModelConfig. Knows no tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# Hugging Face `model_type` -> our architecture; "gemma3" is the text part of a model that also sees pictures.
MODEL_TYPES = {"gemma2": "gemma2", "gemma3_text": "gemma3", "gemma3": "gemma3"}
ARCHITECTURES = ("gemma2", "gemma3")

_GEMMA3 = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 131072,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "hidden_activation": "gelu_pytorch_tanh",
}
_GEMMA2 = _GEMMA3 | {
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
    "rope_theta": 1e4,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
_LOCAL_THETA = 10000.0
# The largest of each family, by layers, scale scores by their embedding's share of a head; the others by head_dim.
_LARGEST = {"gemma2": 46, "gemma3": 62}


def with_defaults(raw: Mapping[str, Any]) -> dict[str, Any]:
    """config.json with what transformers takes where it says nothing; of a model that sees pictures the text part."""
    text = dict(raw.get("text_config") or {}) if raw["model_type"] == "gemma3" else dict(raw)
    if raw["model_type"] == "gemma3":
        text |= {"eos_token_id": raw.get("eos_token_id", text.get("eos_token_id")), "model_type": "gemma3_text"}
    return (_GEMMA2 if text["model_type"] == "gemma2" else _GEMMA3) | text


def fields_of_json(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw` with its defaults."""
    local = (raw.get("rope_parameters") or {}).get("sliding_attention") or {}
    theta = local.get("rope_theta") or raw.get("rope_local_base_freq") or _LOCAL_THETA
    return {
        "attention_scale": float(raw["query_pre_attn_scalar"]) ** -0.5,
        "attention_soft_cap": raw.get("attn_logit_softcapping"),
        "final_soft_cap": raw.get("final_logit_softcapping"),
        # The reference rounds this factor to the type of the weights; in float32 it stays what it is.
        "embedding_scale": math.sqrt(raw["hidden_size"]),
        "norm_offset": 1.0,
        "local_rope_theta": None if raw["model_type"] == "gemma2" else float(theta),
    }


def fields_of_gguf(architecture: str, optional: Callable[[str], Any]) -> dict[str, Any]:
    """`optional` reads a key of the architecture. The converter has already added one to the norms' weights."""
    hidden, heads = optional("embedding_length"), optional("attention.head_count")
    per_head = optional("attention.key_length") or 256
    if optional("block_count") == _LARGEST[architecture]:
        per_head = hidden / heads
    first = architecture == "gemma2"
    return {
        "attention_scale": optional("attention.scale") or per_head**-0.5,
        "attention_soft_cap": optional("attn_logit_softcapping") or (50.0 if first else None),
        "final_soft_cap": optional("final_logit_softcapping") or (30.0 if first else None),
        "embedding_scale": math.sqrt(hidden),
        "local_rope_theta": None if first else float(optional("rope.freq_base_swa") or _LOCAL_THETA),
    }
