"""What an engine says it counted in an answer of embeddings or reranking. Believes nothing that cannot be."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from backends.wire.schema import INT64_MAX


class Counted(NamedTuple):
    prompt_tokens: int
    total_tokens: int  # never less


class _Usage(msgspec.Struct):
    prompt_tokens: Any = None
    total_tokens: Any = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def usage_of(body: bytes) -> Counted | None:
    """None where the engine counted nothing, or nothing that makes sense. Never raises.

    Reranking engines may give the total alone: then all of it was prompt.
    """
    try:
        usage = _decode(body).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if usage is None:
        return None
    prompt, total = _tokens(usage.prompt_tokens), _tokens(usage.total_tokens)
    prompt = prompt or total
    return Counted(prompt, max(prompt, total)) if prompt else None


def _tokens(value: object) -> int:
    return value if type(value) is int and 0 < value <= INT64_MAX else 0
