"""The chunks of a chat answer, as far as a response is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.errors import EngineBroken


class Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Call] | None = None


class Logprobs(msgspec.Struct):
    content: list[dict[str, Any]] | None = None


class Choice(msgspec.Struct):
    index: int = 0
    delta: Delta | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice] | None = None
    usage: Usage | None = None


_NO_ANSWER = "The engine sent something that is not an answer. Try again."
_decoder = msgspec.json.Decoder(Chunk)


def chunk_of(event: bytes) -> Chunk:
    """Raises EngineBroken."""
    try:
        return _decoder.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise EngineBroken(_NO_ANSWER) from None


def chunk_of_whole(answer: dict[str, Any]) -> Chunk:
    """A whole answer is one big delta. Raises EngineBroken."""
    choices = [{"delta": choice.pop("message", None), **choice} for choice in answer.get("choices", ())]
    try:
        return msgspec.convert({"choices": choices, "usage": answer.get("usage")}, Chunk)
    except msgspec.ValidationError:
        raise EngineBroken(_NO_ANSWER) from None
