"""Builders of the official response objects, as JSON bytes ready to send.

Every function takes finished facts; nothing here knows where they came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int | None = (
        None  # of the completion tokens; None where the model does not tell its thoughts apart
    )


class Head(msgspec.Struct, frozen=True):
    """What all objects of one answer share. `created` in seconds since the epoch."""

    id: str
    created: int
    model: str


class Choice(msgspec.Struct, frozen=True):
    """One finished answer; `finish_reason` is "stop", "length", "tool_calls" or "content_filter"."""

    text: str
    finish_reason: str
    logprobs: dict[str, Any] | None = None
    tool_calls: Sequence[dict[str, Any]] = ()
    reasoning: str = ""
    prompt_logprobs: list[dict[str, Any] | None] | None = None  # vLLM's; told where they were asked for


class ModelEntry(msgspec.Struct, frozen=True):
    id: str
    created: int
    owned_by: str
    max_model_len: int | None = None
    task: str | None = None  # "generate" or "embed"


def usage_dict(usage: Usage) -> dict[str, Any]:
    made: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    if usage.reasoning_tokens is not None:
        made["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return made


def chat_chunk(
    head: Head,
    index: int = 0,
    *,
    role: str | None = None,
    content: str | None = None,
    reasoning: str | None = None,
    tool_calls: Sequence[dict[str, Any]] | None = None,
    logprobs: dict[str, Any] | None = None,
    finish_reason: str | None = None,
) -> bytes:
    """One streamed piece of a chat answer: the first carries the role, the last only the finish reason."""
    told = (("role", role), ("content", content), ("reasoning_content", reasoning), ("tool_calls", tool_calls))
    delta = {name: value for name, value in told if value is not None}
    choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
    return _encode(_object(head, "chat.completion.chunk", [choice]))


def completion_chunk(
    head: Head,
    index: int = 0,
    *,
    text: str = "",
    logprobs: dict[str, Any] | None = None,
    finish_reason: str | None = None,
) -> bytes:
    choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
    return _encode(_object(head, "text_completion", [choice]))


def chat_usage_chunk(head: Head, usage: Usage) -> bytes:
    """The last chunk of a stream whose client asked for usage: no choices."""
    return _encode({**_object(head, "chat.completion.chunk", []), "usage": usage_dict(usage)})


def completion_usage_chunk(head: Head, usage: Usage) -> bytes:
    return _encode({**_object(head, "text_completion", []), "usage": usage_dict(usage)})


def chat_completion(head: Head, choices: Sequence[Choice], usage: Usage) -> bytes:
    made = [
        {
            "index": index,
            "message": _message(choice),
            "logprobs": choice.logprobs,
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate(choices)
    ]
    told = {"prompt_logprobs": choices[0].prompt_logprobs} if choices[0].prompt_logprobs is not None else {}
    return _encode({**_object(head, "chat.completion", made), "usage": usage_dict(usage), **told})


def _message(choice: Choice) -> dict[str, Any]:
    made: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
    if choice.reasoning:
        made["reasoning_content"] = choice.reasoning  # where DeepSeek's API, SGLang and llama.cpp put thoughts
    if not choice.tool_calls:
        return made
    return {**made, "content": choice.text or None, "tool_calls": choice.tool_calls}


def completion(head: Head, choices: Sequence[Choice], usage: Usage) -> bytes:
    made = [
        {"index": index, "text": choice.text, "logprobs": choice.logprobs, "finish_reason": choice.finish_reason}
        | ({} if choice.prompt_logprobs is None else {"prompt_logprobs": choice.prompt_logprobs})
        for index, choice in enumerate(choices)
    ]
    return _encode({**_object(head, "text_completion", made), "usage": usage_dict(usage)})


def model_dict(entry: ModelEntry) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": entry.id,
        "object": "model",
        "created": entry.created,
        "owned_by": entry.owned_by,
    }
    extras = {"max_model_len": entry.max_model_len, "task": entry.task}
    return made | {name: value for name, value in extras.items() if value is not None}


def model_list(entries: Iterable[ModelEntry]) -> bytes:
    return _encode({"object": "list", "data": [model_dict(entry) for entry in entries]})


def _object(head: Head, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model, "choices": choices}
