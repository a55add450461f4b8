"""What the span of an attempt says, by OpenTelemetry's conventions for generative AI: figures and names, never text.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from backends.base import Fields
from backends.telemetry.spans import Attributes, Value
from gateway.scope import Form, RequestScope

OPERATIONS: dict[Form, str] = {
    "chat": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
    "rerank": "rerank",
}
# By the kind of adapter, where the provider has another name.
_PROVIDERS = {"native": "sekisho", "llamacpp": "llama.cpp"}
_INTEGERS = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "top_k": "top_k",
    "seed": "seed",
}
_NUMBERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_LONGEST_REASON = 64
_read_integer = msgspec.json.Decoder(int).decode
_read_number = msgspec.json.Decoder(float).decode


def asked(request: RequestScope, fields: Fields, backend: str, kind: str, model: str) -> Attributes:
    """`fields`: what the engine gets. `model`: as it calls it."""
    found: dict[str, Value] = {
        "gen_ai.operation.name": OPERATIONS[request.form],
        "gen_ai.provider.name": _PROVIDERS.get(kind, kind),
        "gen_ai.request.model": model,
        "gen_ai.request.stream": request.streaming,
        "sekisho.backend": backend,
        "sekisho.request_id": request.asked_as,
        "sekisho.attempt": request.tries,
    }
    if request.choices > 1:
        found["gen_ai.request.choice.count"] = request.choices
    for name, told in _INTEGERS.items():
        with suppress(KeyError, msgspec.DecodeError):
            found[f"gen_ai.request.{told}"] = _read_integer(fields[name])
    for name in _NUMBERS:
        with suppress(KeyError, msgspec.DecodeError):
            found[f"gen_ai.request.{name}"] = _read_number(fields[name])
    return found


def answered(
    reasons: Iterable[str], prompt_tokens: int | None, cached_tokens: int, completion_tokens: int, first: float
) -> Attributes:
    """`first`: seconds until something came; 0: nothing did. Figures that the engine has not told are left out."""
    found: dict[str, Value] = {}
    if told := [reason[:_LONGEST_REASON] for reason in reasons]:
        found["gen_ai.response.finish_reasons"] = told
    if prompt_tokens is not None:
        found["gen_ai.usage.input_tokens"] = prompt_tokens
        found["gen_ai.usage.cache_read.input_tokens"] = cached_tokens
    if completion_tokens:
        found["gen_ai.usage.output_tokens"] = completion_tokens
    if first:
        found["gen_ai.response.time_to_first_chunk"] = first
    return found
