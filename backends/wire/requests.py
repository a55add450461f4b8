"""Body bytes to a validated request, or an `InvalidRequest` that names the field and what was expected."""

from __future__ import annotations

import msgspec

from backends.wire.decoding import decode, missing_field
from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, CompletionRequest, ContentPart, Message, Sampling

__all__ = ["ChatRequest", "CompletionRequest", "InvalidRequest", "Message", "parse_chat", "parse_completion", "text_of"]

_CHAT: msgspec.json.Decoder[ChatRequest] = msgspec.json.Decoder(ChatRequest)
_COMPLETION: msgspec.json.Decoder[CompletionRequest] = msgspec.json.Decoder(CompletionRequest)
_KNOWN = frozenset(ChatRequest.__struct_fields__) | frozenset(CompletionRequest.__struct_fields__)


def parse_chat(body: bytes, *, allowed: frozenset[str] = frozenset()) -> ChatRequest:
    """`allowed`: names beyond the known ones that this model's setting lets through unread."""
    request = decode(_CHAT, body, allowed - _KNOWN)
    _check_sampling(request, request.output_limit)
    for index, message in enumerate(request.messages):
        _check_message(message, f"messages[{index}]")
    _check_chat(request)
    return request


def parse_completion(body: bytes, *, allowed: frozenset[str] = frozenset()) -> CompletionRequest:
    request = decode(_COMPLETION, body, allowed - _KNOWN)
    _check_sampling(request, request.output_limit)
    _check_prompt(request)
    return request


def text_of(message: Message, where: str = "messages") -> str:
    """The message's text, its parts joined by newlines; refuses what a text model cannot read."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for index, part in enumerate(message.content):
        if part.type not in ("text", "refusal"):
            raise InvalidRequest(
                f"This model reads text only: a content part of type '{part.type}' cannot be used.",
                f"{where}.content[{index}].type",
                "unsupported_content",
            )
    return "\n".join(part.text or part.refusal or "" for part in message.content)


def _check_sampling(request: Sampling, output_limit: int | None) -> None:
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
            "invalid_value",
        )
    if request.min_tokens and output_limit is not None and request.min_tokens > output_limit:
        raise InvalidRequest(
            f"'min_tokens' ({request.min_tokens}) is greater than the output limit ({output_limit}).",
            "min_tokens",
            "invalid_value",
        )


def _check_message(message: Message, where: str) -> None:
    calls = message.role == "assistant" and (message.tool_calls or message.function_call)
    if message.content is None and not calls and not (message.role == "assistant" and message.refusal):
        raise InvalidRequest(
            f"Invalid value for '{where}.content': expected a string or an array of parts, but got null or nothing.",
            f"{where}.content",
            "invalid_type",
        )
    if message.role == "tool" and message.tool_call_id is None:
        raise missing_field(f"{where}.tool_call_id")
    if isinstance(message.content, list):
        _check_parts(message.content, where)


def _check_parts(parts: list[ContentPart], where: str) -> None:
    for index, part in enumerate(parts):
        if getattr(part, part.type) is None:  # each type of part carries its content in the field of its own name
            raise missing_field(f"{where}.content[{index}].{part.type}")


# A client that could set these would replace the template, the conversation, or what the server decides.
_RESERVED_TEMPLATE_KEYS = frozenset({"chat_template", "messages", "conversation", "tokenize", "tools"})


def _check_chat(request: ChatRequest) -> None:
    if request.top_logprobs is not None and not request.logprobs:
        raise InvalidRequest(
            "'top_logprobs' is only allowed when 'logprobs' is enabled.", "top_logprobs", "invalid_value"
        )
    if request.add_generation_prompt and request.continue_final_message:
        raise InvalidRequest(
            "'add_generation_prompt' and 'continue_final_message' exclude each other.",
            "continue_final_message",
            "invalid_value",
        )
    for key in request.chat_template_kwargs or ():
        if key in _RESERVED_TEMPLATE_KEYS:
            name = f"chat_template_kwargs.{key}"
            raise InvalidRequest(f"Unrecognized request argument supplied: {name}", name, "unknown_parameter")


def _check_prompt(request: CompletionRequest) -> None:
    if isinstance(request.prompt, str):
        return
    kind = type(request.prompt[0])
    if any(type(item) is not kind or item == [] for item in request.prompt):
        raise InvalidRequest(
            "'prompt' must be a string, an array of strings, an array of token ids, or an array of such arrays.",
            "prompt",
            "invalid_type",
        )
