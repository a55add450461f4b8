"""The styles in which models write tool calls, a module each. A model's chat template tells which one it was taught."""

from __future__ import annotations

from native_engine.text.tool_styles.hermes import HERMES
from native_engine.text.tool_styles.llama import LLAMA
from native_engine.text.tool_styles.mistral import MISTRAL_LIST, MISTRAL_NAMED
from native_engine.text.tool_styles.style import ToolStyle

STYLES: tuple[ToolStyle, ...] = (MISTRAL_NAMED, MISTRAL_LIST, HERMES, LLAMA)
# Qwen3-Coder's calls stand between <tool_call> too, but are no JSON.
_FOREIGN = ("<function=",)


def taught_style(template: str) -> ToolStyle | None:
    """The first that the source of a chat template teaches."""
    if any(text in template for text in _FOREIGN):
        return None
    return next((style for style in STYLES if any(text in template for text in style.taught)), None)
