"""Body bytes to a validated request, or an `InvalidRequest` that names the field and what was expected."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from backends.wire.errors import InvalidRequest
from backends.wire.nesting import MAX_DEPTH, is_deeper_than
from backends.wire.schema import ChatRequest, CompletionRequest, ContentPart, Message, Sampling

__all__ = ["ChatRequest", "CompletionRequest", "InvalidRequest", "Message", "parse_chat", "parse_completion", "text_of"]

MAX_NAME_CHARACTERS = 100

_Request = TypeVar("_Request", bound=Sampling)

_CHAT: msgspec.json.Decoder[ChatRequest] = msgspec.json.Decoder(ChatRequest)
_COMPLETION: msgspec.json.Decoder[CompletionRequest] = msgspec.json.Decoder(CompletionRequest)
_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse_chat(body: bytes, *, allowed: frozenset[str] = frozenset()) -> ChatRequest:
    """`allowed`: names beyond the known ones that this model's setting lets through unread."""
    request = _decode(_CHAT, body, allowed)
    _check_sampling(request, request.output_limit)
    for index, message in enumerate(request.messages):
        _check_message(message, f"messages[{index}]")
    _check_chat(request)
    return request


def parse_completion(body: bytes, *, allowed: frozenset[str] = frozenset()) -> CompletionRequest:
    request = _decode(_COMPLETION, body, allowed)
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


def _decode(decoder: msgspec.json.Decoder[_Request], body: bytes, allowed: frozenset[str]) -> _Request:
    _check_bytes(body)
    try:
        return decoder.decode(_without(body, allowed) if allowed else body)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}.", code="invalid_json") from None


def _check_bytes(body: bytes) -> None:
    if not body.strip():
        raise InvalidRequest("The request body is empty. Send a JSON object.", code="invalid_json")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The request body is not valid UTF-8 (at byte {error.start}).", code="invalid_json"
        ) from None
    if is_deeper_than(body):
        raise InvalidRequest(f"The request body is nested more than {MAX_DEPTH} levels deep.", code="invalid_json")


def _without(body: bytes, allowed: frozenset[str]) -> bytes:
    """Drop the names that a setting lets through; a known field is validated all the same."""
    fields = _OBJECT.decode(body)
    extra = allowed & fields.keys() - _KNOWN
    return msgspec.json.encode({name: value for name, value in fields.items() if name not in extra}) if extra else body


_KNOWN = frozenset(ChatRequest.__struct_fields__) | frozenset(CompletionRequest.__struct_fields__)


_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`\Z")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_GOT = re.compile(r"Expected `(.*)`, got `(.*)`")
_JSON_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def _explained(text: str) -> InvalidRequest:
    """msgspec's account ("Expected `float` <= 2.0 - at `$.temperature`") in the official service's words."""
    place = _PLACE.search(text)
    problem = text[: place.start()] if place else text
    where = place["path"].removeprefix(".") if place else ""
    if unknown := _UNKNOWN_FIELD.fullmatch(problem):
        name = _joined(where, unknown[1])
        return InvalidRequest(f"Unrecognized request argument supplied: {name}", name, "unknown_parameter")
    if missing := _MISSING_FIELD.fullmatch(problem):
        name = _joined(where, missing[1])
        return InvalidRequest(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if got := _GOT.fullmatch(problem):
        subject = f"'{where}'" if where else "the request body"
        message = f"Invalid type for {subject}: expected {_type_names(got[1])}, but got {_type_names(got[2])} instead."
        return InvalidRequest(message, where or None, "invalid_type")
    subject = f"a key of '{where}'" if place and place["key"] else f"'{where}'"
    return InvalidRequest(f"Invalid value for {subject}: {_plain(problem)}.", where or None, "invalid_value")


def _joined(where: str, name: str) -> str:
    name = name[:MAX_NAME_CHARACTERS]  # the client chose it, and it comes back in the answer and the logs
    return f"{where}.{name}" if where else name


def _type_names(names: str) -> str:
    wanted = [name for name in names.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_JSON_NAMES.get(name, name) for name in wanted)


def _plain(problem: str) -> str:
    words = re.sub("`([a-z]+)`", lambda found: _JSON_NAMES.get(found[1], found[1]), problem)
    return words[:1].lower() + words[1:]


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
        name = f"{where}.tool_call_id"
        raise InvalidRequest(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if isinstance(message.content, list):
        _check_parts(message.content, where)


def _check_parts(parts: list[ContentPart], where: str) -> None:
    for index, part in enumerate(parts):
        if getattr(part, part.type) is None:  # each type of part carries its content in the field of its own name
            name = f"{where}.content[{index}].{part.type}"
            raise InvalidRequest(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


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
