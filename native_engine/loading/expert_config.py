"""How many experts a model has and how they are used, as its files say it. Knows no tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from native_engine.loading.errors import ModelError


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """`per_token` of `count` experts take part in a token, each of `width` columns inside. `normalised`: whether their
    weights sum to one. Which layers have experts is seen in the tensors."""

    count: int
    per_token: int
    width: int
    normalised: bool

    def __post_init__(self) -> None:
        if not 1 <= self.per_token <= self.count or self.width < 1:
            raise ModelError(
                f"{self.per_token} of {self.count} experts {self.width} wide: the model's description is damaged."
            )


def experts_of_json(raw: Mapping[str, Any]) -> ExpertConfig | None:
    """None for a model without. Raises ValueError for what is not computed here: an activation with other constants."""
    count = raw.get("num_experts") or raw.get("num_local_experts")
    if not count:
        return None
    if (raw.get("swiglu_alpha", 1.702), raw.get("swiglu_limit", 7.0)) != (1.702, 7.0):
        raise ValueError("its experts' swiglu_alpha and swiglu_limit are not 1.702 and 7")
    width = raw.get("moe_intermediate_size") or raw["intermediate_size"]
    normalised = raw["model_type"] != "qwen3_moe" or bool(raw.get("norm_topk_prob", False))
    return ExpertConfig(int(count), int(raw["num_experts_per_tok"]), int(width), normalised)


def experts_of_gguf(optional: Callable[[str], Any], integer: Callable[..., int]) -> ExpertConfig | None:
    """Both read a key of the architecture. llama.cpp divides by the sum where the file says nothing."""
    count = integer("expert_count", 0)
    if not count:
        return None
    width = integer("expert_feed_forward_length", integer("feed_forward_length"))
    return ExpertConfig(count, integer("expert_used_count"), width, optional("expert_weights_norm") is not False)
