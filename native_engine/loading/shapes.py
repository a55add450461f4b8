"""The shape that each tensor of a decoder must have, by its Hugging Face name. Reads no tensor."""

from __future__ import annotations

import re

from native_engine.loading.model_config import ModelConfig

_LAYER = re.compile(r"model\.layers\.\d+\.(?:self_attn\.|mlp\.(?:experts\.\d+\.)?)?(\w+)\.(weight|bias)")


def expected_shape(config: ModelConfig, name: str) -> tuple[int, ...] | None:
    """Rows and columns, as torch has them; None for a tensor of which the configuration says nothing."""
    if name in ("model.embed_tokens.weight", "lm_head.weight"):
        return (config.vocab_size, config.hidden_size)
    if name == "model.norm.weight":
        return (config.hidden_size,)
    match = _LAYER.fullmatch(name)
    if match is None:
        return None
    part, kind = match.groups()
    if part.endswith("layernorm"):
        return (config.hidden_size,)
    shape = _matrices(config, expert=".experts." in name).get(part)
    return shape if shape is None or kind == "weight" else shape[:1]


def _matrices(config: ModelConfig, *, expert: bool) -> dict[str, tuple[int, ...]]:
    hidden, dim = config.hidden_size, config.head_dim
    queries, keys = config.num_heads * dim, config.num_kv_heads * dim
    width = config.experts.width if expert and config.experts else config.intermediate_size
    matrices: dict[str, tuple[int, ...]] = {
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "qkv_proj": (queries + 2 * keys, hidden),
        "o_proj": (hidden, queries),
        "q_norm": (dim,),
        "k_norm": (dim,),
        "gate_proj": (width, hidden),
        "up_proj": (width, hidden),
        "gate_up_proj": (2 * width, hidden),
        "down_proj": (hidden, width),
    }
    return matrices | ({"gate": (config.experts.count, hidden)} if config.experts else {})
