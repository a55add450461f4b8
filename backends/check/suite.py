"""The list of checks in their order, and how one is run. Knows no terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import msgspec

from backends.check import extras, mistakes, service, talking
from backends.check.engine import Engine
from backends.check.verdicts import Failed, Unsupported
from backends.errors import BackendError, Rejected
from backends.wire.errors import normalise

# How an engine says that it has no such thing.
_LACKING = frozenset({400, 404, 405, 422, 501})


class Check(NamedTuple):
    """`run` returns what it saw, or raises. `optional`: an engine may answer that it cannot do this."""

    name: str
    title: str
    run: Callable[[Engine], Awaitable[str]]
    optional: bool = False


class Outcome(msgspec.Struct, frozen=True):
    check: str
    title: str
    verdict: Literal["ok", "failed", "not supported"]
    seen: str
    milliseconds: int


CHECKS = (
    Check("readiness", "It is ready to take a request", service.readiness),
    Check("models", "It lists its models and how much they read", service.models),
    Check("kind", "It is the kind of engine that it is taken for", service.kind),
    Check("stream", "A chat answer comes piece by piece and ends properly", talking.stream),
    Check("usage", "Tokens are counted", talking.usage),
    Check("max_tokens", "max_tokens limits the answer", talking.max_tokens),
    Check("max_completion_tokens", "max_completion_tokens limits the answer", talking.max_completion_tokens),
    Check("stop", "A stop string ends the answer and is not in it", talking.stop),
    Check("seed", "The same seed gives the same text", talking.seed),
    Check("greedy", "Temperature 0 gives the same text", talking.greedy),
    Check("logprobs", "Log probabilities of the tokens", extras.logprobs, optional=True),
    Check("tools", "A tool that must be called is called", extras.tools, optional=True),
    Check("structured_output", "JSON that fits a schema", extras.structured_output, optional=True),
    Check("choices", "Two answers to one prompt", extras.choices, optional=True),
    Check("unknown_model", "A model that it does not have is refused", mistakes.unknown_model),
    Check("too_long", "A prompt beyond the context is refused, not cut", mistakes.too_long),
    Check("bad_value", "A wrong value is the client's mistake", mistakes.bad_value),
    Check("turns", "Earlier turns are read", talking.turns),
    Check("characters", "Japanese and emoji arrive whole", talking.characters),
    Check("long_prompt", "A prompt of 1,000 words", talking.long_prompt),
    Check("parallel", "Four requests at once", talking.parallel),
    Check("completions", "Plain completions", talking.completions, optional=True),
    Check("embeddings", "Embeddings", extras.embeddings, optional=True),
    Check("rerank", "Reranking", extras.rerank, optional=True),
    Check("continuation", "An answer that was cut goes on where it ended", extras.continuation, optional=True),
    Check("load", "Its figures of load rise with its load", service.load),
    Check("abort", "A stream that is closed early is aborted", service.abort),
)


async def examine(check: Check, engine: Engine, seconds: float = 60.0) -> Outcome:
    """One check, within `seconds`. Raises nothing: whatever happens is its outcome."""
    began = time.monotonic()
    verdict: Literal["ok", "failed", "not supported"] = "failed"
    try:
        async with asyncio.timeout(seconds):
            seen, verdict = await check.run(engine), "ok"
    except Unsupported as lack:
        seen, verdict = str(lack), "not supported"
    except Failed as fault:
        seen = str(fault)
    except TimeoutError:
        seen = f"no end within {seconds:g} s"
    except Rejected as refusal:
        error = normalise(refusal.status, refusal.body)
        seen = f"{error.status}: {error.message}"
        if check.optional and error.status in _LACKING:
            verdict = "not supported"
    except BackendError as fault:
        seen = f"{type(fault).__name__}: {fault}"
    except Exception as fault:  # an answer in no known form must not end the run
        seen = f"it cannot be understood: {type(fault).__name__}: {fault}"
    return Outcome(check.name, check.title, verdict, seen, round((time.monotonic() - began) * 1000))
