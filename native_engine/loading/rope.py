"""How models' files spell the scaling of rotary positions, brought into one form. Computes no frequency.

The form is Hugging Face's `rope_parameters`: "rope_type" and that type's parameters, with its defaults filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# These stretch a context that the model was first trained with; the others know only one length.
_STRETCHING = ("llama3", "yarn", "longrope")
# llama.cpp's ways to bend YaRN further. No converter of the families here writes any but the neutral value.
_GGUF_YARN_EXTRAS = ("attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier")

Scaling = dict[str, Any]


def rope_of_json(raw: Mapping[str, Any]) -> tuple[float, Scaling | None]:
    """Base and scaling, in both spellings: `rope_theta` + `rope_scaling`, and `rope_parameters` holding either
    (transformers 5)."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    scaling = dict(scaling.get("full_attention") or scaling)  # Gemma 3 has others for layers with a window
    theta = float(scaling.pop("rope_theta", None) or raw.get("rope_theta") or 10000.0)
    rope_type = scaling.pop("rope_type", None) or scaling.get("type") or "default"
    scaling.pop("type", None)
    if raw["model_type"] == "phi3" and rope_type in ("su", "yarn"):  # what its first releases called it
        rope_type = "longrope"
    if rope_type == "default":
        return theta, None
    if rope_type in _STRETCHING:
        _fill_in(scaling, raw)
    return theta, {"rope_type": rope_type, **scaling}


def rotary_share(raw: Mapping[str, Any]) -> float:
    """Which part of each head turns: Phi-4-mini keeps a quarter as it is."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    return float(raw.get("partial_rotary_factor") or scaling.get("partial_rotary_factor") or 1.0)


def _fill_in(scaling: Scaling, raw: Mapping[str, Any]) -> None:
    longest = raw["max_position_embeddings"]
    original = raw.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings") or longest
    scaling["original_max_position_embeddings"] = int(original)
    if scaling.get("factor") is None:
        scaling["factor"] = longest / original


def rope_of_gguf(optional: Callable[[str], Any], tensors: Mapping[str, object], context_length: int) -> Scaling | None:
    """`optional` reads a key of the architecture. Raises ValueError for a YaRN of llama.cpp's own."""
    original = int(optional("rope.scaling.original_context_length") or context_length)
    if "rope_factors_short.weight" in tensors:  # the frequencies' divisors are tensors, as below
        attention_factor = float(optional("rope.scaling.attn_factor") or 1.0)
        return {
            "rope_type": "longrope",
            "original_max_position_embeddings": original,
            "attention_factor": attention_factor,
        }
    if "rope_freqs.weight" in tensors:  # Llama 3 ships the outcome of its scaling, one divisor a frequency
        return {"rope_type": "freq_factors"}
    rope_type = optional("rope.scaling.type")
    if rope_type in (None, "none"):
        return None
    scaling = {"rope_type": rope_type, "factor": float(optional("rope.scaling.factor") or 1.0)}
    return scaling | _gguf_yarn(optional, original) if rope_type == "yarn" else scaling


def _gguf_yarn(optional: Callable[[str], Any], original: int) -> Scaling:
    for key in _GGUF_YARN_EXTRAS:
        if optional(f"rope.scaling.{key}") not in (None, 1.0):
            raise ValueError(f"rope.scaling.{key} is not supported")
    betas = {name: optional(f"rope.scaling.yarn_{name}") for name in ("beta_fast", "beta_slow")}
    return {"original_max_position_embeddings": original, **{name: value for name, value in betas.items() if value}}


def stretched_length(scaling: Scaling | None, max_position: int) -> int:
    """Tokens that the model holds: configurations with YaRN often go on stating the length before stretching."""
    if scaling is None or scaling["rope_type"] != "yarn":
        return max_position
    return max(max_position, int(scaling["original_max_position_embeddings"] * scaling["factor"]))
