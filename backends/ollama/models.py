"""What Ollama tells of its models: which there are, what they can do, and how many tokens they read at once.

Reads bytes, asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

# What Ollama falls back to on a small machine, taken where neither the operator nor the engine says.
DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Traits:
    """What a model is, loaded or not."""

    capabilities: frozenset[str] | None = None  # completion, tools, vision, thinking, embedding ...; None: not told
    trained_context: int | None = None
    thinks_by_level: bool = False  # takes low, medium, high where others take yes or no


@dataclass(frozen=True, slots=True)
class Context:
    """How many tokens a model reads at once. `sent` is what to ask for; None leaves it to the server.

    `known` is what to hold a prompt against; None where the server has not said and refuses by itself.
    """

    sent: int | None
    known: int | None
    told: int  # to people who ask for the list of models


class _Tag(msgspec.Struct):
    name: str
    digest: str = ""


class _Tags(msgspec.Struct):
    models: list[_Tag] | None = None


class _Loaded(msgspec.Struct):
    name: str
    context_length: int | None = None


class _Ps(msgspec.Struct):
    models: list[_Loaded] | None = None


class _Details(msgspec.Struct):
    family: str = ""


class _Show(msgspec.Struct):
    capabilities: list[str] | None = None
    details: _Details = msgspec.field(default_factory=_Details)
    model_info: dict[str, Any] | None = None


def full_name(name: str) -> str:
    """`qwen3` stands for `qwen3:latest`, as Ollama lists it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def digests_of(tags: bytes) -> dict[str, str]:
    """Every model's name, and what changes when the model does. Raises msgspec.DecodeError."""
    return {tag.name: tag.digest for tag in msgspec.json.decode(tags, type=_Tags).models or ()}


def traits_of(show: bytes) -> Traits:
    """Raises msgspec.DecodeError."""
    told = msgspec.json.decode(show, type=_Show)
    info = told.model_info or {}
    trained = info.get(f"{info.get('general.architecture')}.context_length")
    return Traits(
        None if told.capabilities is None else frozenset(told.capabilities),
        trained if isinstance(trained, int) else None,
        told.details.family in ("gptoss", "gpt-oss"),
    )


def loaded_contexts_of(ps: bytes) -> dict[str, int | None]:
    """The context each loaded model has; None from a server too old to say. Raises msgspec.DecodeError."""
    return {one.name: one.context_length for one in msgspec.json.decode(ps, type=_Ps).models or ()}


def context_of(traits: Traits, wished: int | None, loaded: int | None, server_tells: bool) -> Context:
    """`wished` by the operator; `loaded` is what the model has now.

    A server too old to say what context it uses is too old to refuse what it would cut: it is told one.
    """
    longest = traits.trained_context or wished or loaded or DEFAULT_CONTEXT
    if wished is None and not server_tells:
        wished = DEFAULT_CONTEXT
    sent = None if wished is None else min(wished, longest)
    return Context(sent, sent or loaded, sent or loaded or min(DEFAULT_CONTEXT, longest))


def can(capabilities: Mapping[str, bool | None], traits: Traits, what: str) -> bool:
    """What the operator says goes before what the engine says; what nobody says is left to the engine."""
    said = capabilities.get(what)
    if said is not None:
        return said
    return traits.capabilities is None or what in traits.capabilities
