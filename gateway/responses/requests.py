"""A /v1/responses body to a request that chat can answer, or an `InvalidRequest` that says what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from backends.wire.decoding import decode, decode_part, explained, missing_field
from backends.wire.errors import InvalidRequest
from gateway.responses.schema import (
    FunctionCallItem,
    FunctionOutputItem,
    FunctionTool,
    Item,
    Kind,
    MessageItem,
    NamedFunction,
    Parsed,
    Part,
    ReasoningItem,
    ResponsesRequest,
)

_REQUEST = msgspec.json.Decoder(ResponsesRequest)
_KIND = msgspec.json.Decoder(Kind)
_TOOL = msgspec.json.Decoder(FunctionTool)
_ITEMS: dict[str, msgspec.json.Decoder[Any]] = {
    "message": msgspec.json.Decoder(MessageItem),
    "function_call": msgspec.json.Decoder(FunctionCallItem),
    "function_call_output": msgspec.json.Decoder(FunctionOutputItem),
    "reasoning": msgspec.json.Decoder(ReasoningItem),
}
_KNOWN = frozenset(ResponsesRequest.__struct_fields__)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

# What needs a place to keep responses, or somebody to run a tool: (field, what to do instead).
_NOTHING_KEPT = {
    "previous_response_id": "Responses are not stored here: send the whole conversation in 'input'.",
    "conversation": "Conversations are not stored here: send the whole conversation in 'input'.",
    "prompt": "Prompt templates are not stored here: send the text in 'instructions' and 'input'.",
}
# The field of each content part that carries it.
_CARRIED = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "input_image": "image_url",
}


def parse_responses(body: bytes, *, allowed: frozenset[str] = frozenset()) -> Parsed:
    """`allowed`: names beyond the known ones that a setting lets through unread."""
    extra = allowed - _KNOWN
    request = decode(_REQUEST, body, extra)
    _check_kept(request)
    _check_shape(request)
    tools = tuple(_tool(raw, f"tools[{index}]") for index, raw in enumerate(request.tools or ()))
    return Parsed(
        request=request,
        items=_items(request),
        tools=tools,
        choice=_choice(request.tool_choice, bool(tools)),
        extra={name: value for name, value in _fields(body).items() if name in extra} if extra else {},
    )


def _check_kept(request: ResponsesRequest) -> None:
    for name, advice in _NOTHING_KEPT.items():
        if getattr(request, name) is not None:
            raise _unsupported(advice, name)
    if request.background:
        raise _unsupported(
            "Nothing runs in the background here: leave 'background' out, or send a batch.", "background"
        )
    if request.truncation == "auto":
        raise _unsupported("Input is never cut here: leave 'truncation' out and send less.", "truncation")


def _check_shape(request: ResponsesRequest) -> None:
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
            "invalid_value",
        )
    form = request.text and request.text.format
    if form and form.type == "json_schema":
        for name in ("name", "schema"):
            if getattr(form, name) is None:
                raise missing_field(f"text.format.{name}")


def _items(request: ResponsesRequest) -> tuple[Item, ...]:
    if isinstance(request.input, msgspec.UnsetType):
        raise missing_field("input")
    if isinstance(request.input, str):
        return (MessageItem(role="user", content=request.input),)
    items = tuple(_item(raw, f"input[{index}]") for index, raw in enumerate(request.input))
    if all(isinstance(item, ReasoningItem) for item in items):
        raise InvalidRequest("'input' holds thoughts alone: send what is to be answered.", "input", "invalid_value")
    return items


def _item(raw: msgspec.Raw, where: str) -> Item:
    kind = decode_part(_KIND, raw, where).type or "message"
    if kind == "item_reference":
        raise _unsupported("Items are not stored here: send the item itself.", where)
    if kind not in _ITEMS:
        raise _unsupported(f"Items of this type are not taken: send {_listed(list(_ITEMS))}.", f"{where}.type")
    item: Item = decode_part(_ITEMS[kind], raw, where)
    if isinstance(item, MessageItem) and isinstance(item.content, list):
        _check_parts(item.content, f"{where}.content")
    elif isinstance(item, FunctionOutputItem) and isinstance(item.output, list):
        _check_parts(item.output, f"{where}.output")
    return item


def _check_parts(parts: Sequence[Part], where: str) -> None:
    for index, part in enumerate(parts):
        if part.type not in _CARRIED:
            raise _unsupported("Parts of this type are not taken: send text or images.", f"{where}[{index}].type")
        if part.file_id is not None:
            raise _unsupported("Send the image itself, as a data URL in 'image_url'.", f"{where}[{index}].file_id")
        carried = _CARRIED[part.type]
        if getattr(part, carried) is None:
            raise missing_field(f"{where}[{index}].{carried}")


def _tool(raw: msgspec.Raw, where: str) -> FunctionTool:
    if decode_part(_KIND, raw, where).type not in ("function", None):
        message = "Only tools of type 'function' are taken: run the tool yourself and describe it as a function."
        raise _unsupported(message, f"{where}.type")
    return decode_part(_TOOL, raw, where)


def _choice(choice: str | dict[str, Any] | None, has_tools: bool) -> str | NamedFunction | None:
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        raise InvalidRequest(
            "'tool_choice' must be none, auto, required or a function.", "tool_choice", "invalid_value"
        )
    if not has_tools and (isinstance(choice, dict) or choice == "required"):
        raise InvalidRequest("This 'tool_choice' needs 'tools'.", "tool_choice", "invalid_value")
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") not in ("function", None):
        raise _unsupported("Only a function may be chosen: give its type and name.", "tool_choice.type")
    try:
        return msgspec.convert(choice, NamedFunction)
    except msgspec.ValidationError as error:
        raise explained(str(error), "tool_choice") from None


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1]


def _unsupported(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param, "unsupported_parameter")
