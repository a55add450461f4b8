"""A client's mistakes are told as such, and nothing is cut in silence."""

from __future__ import annotations

from dataclasses import replace

from backends.check.engine import Engine
from backends.check.verdicts import Failed, Unsupported
from backends.errors import Rejected
from backends.wire.errors import ForeignError, normalise


async def unknown_model(engine: Engine) -> str:
    error = await _refused(replace(engine, model="no-such-model"))
    if error is None:
        raise Unsupported("served all the same; the gateway lets only listed names through")
    if error.status not in (400, 404):
        raise Failed(_told(error))
    return _told(error)


async def too_long(engine: Engine) -> str:
    """A word is a token at least."""
    if engine.context_length is None:
        raise Unsupported("it does not say its context length")
    words = engine.context_length + 64
    try:
        answer = await engine.chat("word " * words, max_tokens=1)
    except Rejected as refusal:
        error = normalise(refusal.status, refusal.body)
        if error.status not in (400, 413) or error.code != "context_length_exceeded":
            raise Failed(f"{words} words: {_told(error)}") from refusal
        return _told(error)
    if answer.usage.prompt_tokens < words:
        raise Failed(f"cut in silence: of {words} words it read {answer.usage.prompt_tokens} tokens")
    return f"it read all {answer.usage.prompt_tokens} tokens: more than it says"


async def bad_value(engine: Engine) -> str:
    try:
        error = await _refused(engine, temperature="warm")
    except Unsupported as refusal:
        return f"refused before it is sent: {refusal}"
    if error is None:
        raise Unsupported("taken all the same; the gateway checks every field itself")
    if error.status >= 500:
        raise Failed(_told(error))
    return _told(error)


async def _refused(engine: Engine, **fields: str) -> ForeignError | None:
    try:
        await engine.chat(max_tokens=1, **fields)
    except Rejected as refusal:
        return normalise(refusal.status, refusal.body)
    return None


def _told(error: ForeignError) -> str:
    return f"{error.status} {error.code or error.type}: {error.message}"
