"""How many tokens a model reads at once: what the operator says, what the engine says, and what nobody says."""

from __future__ import annotations

import pytest

from backends.ollama.models import DEFAULT_CONTEXT, Context, Traits, can, context_of, full_name, traits_of

LONG, SHORT, UNTOLD = Traits(trained_context=40960), Traits(trained_context=2048), Traits()


@pytest.mark.parametrize(
    ("traits", "wished", "loaded", "tells", "expected"),
    [
        (LONG, 8192, 16384, True, Context(8192, 8192, 8192)),
        (SHORT, 8192, None, True, Context(2048, 2048, 2048)),
        (UNTOLD, 8192, None, True, Context(8192, 8192, 8192)),
        (LONG, None, 16384, True, Context(None, 16384, 16384)),
        (LONG, None, None, True, Context(None, None, DEFAULT_CONTEXT)),
        (SHORT, None, None, True, Context(None, None, 2048)),
        (LONG, None, None, False, Context(DEFAULT_CONTEXT, DEFAULT_CONTEXT, DEFAULT_CONTEXT)),
        (SHORT, None, None, False, Context(2048, 2048, 2048)),
    ],
    ids=[
        "the operator's wish goes first",
        "no model reads more than it was trained for",
        "a wish for a model that tells nothing",
        "else what it is loaded with",
        "not loaded: left to a server that refuses by itself",
        "and told as what it can at most",
        "a server too old to say is told",
        "though no more than the model can",
    ],
)
def test_context(traits: Traits, wished: int | None, loaded: int | None, tells: bool, expected: Context) -> None:
    assert context_of(traits, wished, loaded, tells) == expected


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("qwen3", "qwen3:latest"),
        ("qwen3:0.6b", "qwen3:0.6b"),
        ("host:5000/library/qwen3", "host:5000/library/qwen3:latest"),
    ],
)
def test_a_short_name_stands_for_the_latest(name: str, full: str) -> None:
    assert full_name(name) == full


def test_what_a_model_can_is_the_operators_word_then_its_own_then_left_to_the_engine() -> None:
    told = Traits(frozenset({"completion", "tools"}))
    assert can({"tools": None}, told, "tools")
    assert not can({"tools": False}, told, "tools")
    assert not can({"vision": None}, told, "vision")
    assert can({"vision": True}, told, "vision")
    assert can({}, UNTOLD, "thinking")


def test_only_some_models_think_by_level() -> None:
    assert traits_of(b'{"details":{"family":"gptoss"},"capabilities":["thinking"]}').thinks_by_level
    assert not traits_of(b'{"details":{"family":"qwen3"},"capabilities":["thinking"]}').thinks_by_level
