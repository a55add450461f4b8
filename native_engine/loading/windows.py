"""Which layers attend through a sliding window, and how wide it is, as each family's files say it. Knows no tensor.

A window is how many tokens, itself among them, a token sees; None is all of them. The result has one entry a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Windows = tuple[int | None, ...]

_SLIDING = "sliding_attention"
_QWEN = ("qwen2", "qwen3")  # whose first layers may have no window
# Where config.json says nothing of the width.
_DEFAULT_WIDTHS = {"gpt_oss": 128, "mistral": 4096, "gemma2": 4096, "gemma3_text": 4096}
# Layers have windows but for every second (Gemma 3's: sixth), where nothing else is said.
_DEFAULT_PATTERNS = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6}
_GGUF_PATTERNS = {"gemma2": 2, "gpt-oss": 2, "gemma3": 6}


def windows_of_json(raw: Mapping[str, Any], num_layers: int) -> Windows:
    """Raises ValueError where `layer_types` does not name every layer's kind."""
    model_type = raw["model_type"]
    width = raw.get("sliding_window", _DEFAULT_WIDTHS.get(model_type))
    switched_off = model_type == "llama" or (model_type.startswith("qwen") and not raw.get("use_sliding_window"))
    if width is None or switched_off:
        return (None,) * num_layers
    kinds = raw.get("layer_types") or _kinds(raw, model_type, num_layers)
    if len(kinds) != num_layers:
        raise ValueError(f"layer_types names {len(kinds)} layers of {num_layers}")
    return tuple(int(width) if kind == _SLIDING else None for kind in kinds)


def _kinds(raw: Mapping[str, Any], model_type: str, num_layers: int) -> list[str]:
    if model_type in _DEFAULT_PATTERNS:
        every = raw.get("sliding_window_pattern") or _DEFAULT_PATTERNS[model_type]
        return [_SLIDING if (index + 1) % every else "full_attention" for index in range(num_layers)]
    first = int(raw.get("max_window_layers", 28)) if model_type in _QWEN else 0
    return [_SLIDING if index >= first else "full_attention" for index in range(num_layers)]


def windows_of_gguf(architecture: str, optional: Callable[[str], Any], num_layers: int) -> Windows:
    """`optional` reads a key of the architecture. The pattern of windowed layers is llama.cpp's own where the file has
    none: only newer converters write it."""
    width = int(optional("attention.sliding_window") or (4096 if architecture == "gemma2" else 0))
    pattern = optional("attention.sliding_window_pattern") or _GGUF_PATTERNS.get(architecture)
    if not width:
        return (None,) * num_layers
    if isinstance(pattern, list):
        return tuple(width if pattern[index] else None for index in range(num_layers))
    return tuple(width if pattern is None or (index + 1) % pattern else None for index in range(num_layers))
