"""Request fields that are valid but that this engine cannot honour: refused by name, never ignored in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, CompletionRequest, Sampling

# A field passes when it is absent, null, or has a value that asks for nothing.
_Harmless = Callable[[Any], bool]


def _falsy(value: Any) -> bool:
    return not value


_COMMON: dict[str, _Harmless] = {
    "include_stop_str_in_output": _falsy,
    "skip_special_tokens": bool,
    "spaces_between_special_tokens": _falsy,
}
_CHAT: dict[str, _Harmless] = {
    "echo": _falsy,
    "functions": _falsy,
    "function_call": lambda value: value in ("none", "auto"),
    "modalities": lambda value: set(value) <= {"text"},
    "audio": _falsy,
    "prediction": _falsy,
    "verbosity": lambda value: value == "medium",
    "web_search_options": lambda value: False,
}
_COMPLETION: dict[str, _Harmless] = {
    "suffix": _falsy,
}


def refuse_unsupported_chat(request: ChatRequest) -> None:
    _refuse(request, _COMMON | _CHAT)


def refuse_unsupported_completion(request: CompletionRequest) -> None:
    _refuse(request, _COMMON | _COMPLETION)
    shown = request.n or 1
    if request.answers_each < shown:
        raise InvalidRequest(f"'best_of' must be at least 'n' ({shown}).", "best_of", "invalid_value")
    if request.stream and request.answers_each > shown:
        raise InvalidRequest("'best_of' above 'n' cannot be streamed.", "best_of", "invalid_value")


def _refuse(request: Sampling, table: dict[str, _Harmless]) -> None:
    for name, harmless in table.items():
        value = getattr(request, name)
        if value is not None and not harmless(value):
            raise _unsupported(name)
    if request.stream and request.prompt_logprobs is not None:
        raise InvalidRequest("'prompt_logprobs' cannot be streamed.", "prompt_logprobs", "invalid_value")
    if request.stream_options is not None and request.stream_options.continuous_usage_stats:
        raise _unsupported("stream_options.continuous_usage_stats")


def _unsupported(name: str) -> InvalidRequest:
    return InvalidRequest(f"'{name}' is not supported by this engine.", name, "unsupported_parameter")
