"""The styles in which models write tool calls, a module each. A model's chat template tells which one it was taught."""

from __future__ import annotations

from native_engine.text.tool_styles.harmony import HARMONY
from native_engine.text.tool_styles.hermes import HERMES
from native_engine.text.tool_styles.llama import LLAMA
from native_engine.text.tool_styles.mistral import MISTRAL_LIST, MISTRAL_NAMED
from native_engine.text.tool_styles.style import ToolStyle

STYLES: tuple[ToolStyle, ...] = (HARMONY, MISTRAL_NAMED, MISTRAL_LIST, HERMES, LLAMA)


def taught_style(template: str) -> ToolStyle | None:
    """The first that the source of a chat template teaches."""
    return next((style for style in STYLES if style.taught.search(template)), None)
