"""The native engine: one process, one model. Importing this package loads nothing heavy; `LLM` comes on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from native_engine.beam_search import BeamSearchParams
    from native_engine.llm import LLM
    from native_engine.request import SamplingParams

__all__ = ["LLM", "BeamSearchParams", "SamplingParams"]


def __getattr__(name: str) -> Any:
    if name == "LLM":
        from native_engine.llm import LLM

        return LLM
    if name == "SamplingParams":
        from native_engine.request import SamplingParams

        return SamplingParams
    if name == "BeamSearchParams":
        from native_engine.beam_search import BeamSearchParams

        return BeamSearchParams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
