"""A request of /v1/responses as the chat request that asks the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.responses.schema import (
    FunctionCallItem,
    FunctionOutputItem,
    FunctionTool,
    Item,
    MessageItem,
    NamedFunction,
    Parsed,
    Part,
    ReasoningItem,
    ResponsesRequest,
    TextFormat,
)

Fields = dict[str, Any]

_LOGPROBS = "message.output_text.logprobs"
# What chat calls by the same name.
_SAME = (
    "model",
    "temperature",
    "top_p",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)


def chat_fields(parsed: Parsed) -> Fields:
    """The body's fields. It always asks for a stream with usage: of that both forms of a response are made."""
    request = parsed.request
    fields: Fields = {name: getattr(request, name) for name in _SAME}
    fields |= {
        "messages": messages(request.instructions, parsed.items),
        "max_completion_tokens": request.max_output_tokens,
        "reasoning_effort": request.reasoning.effort if request.reasoning else None,
        "verbosity": request.text.verbosity if request.text else None,
        "response_format": _format(request.text.format) if request.text and request.text.format else None,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    fields |= _tools(parsed) | _logprobs(request) | parsed.extra
    return {name: value for name, value in fields.items() if value is not None}


def messages(instructions: str | None, items: Sequence[Item]) -> list[Fields]:
    """What the assistant said, thought and called in one go is one message in chat, however many items it is here."""
    made: list[Fields] = [{"role": "system", "content": instructions}] if instructions else []
    for item in items:
        if isinstance(item, FunctionOutputItem):
            made.append({"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)})
        elif isinstance(item, MessageItem) and item.role != "assistant":
            made.append({"role": item.role, "content": _content(item.content)})
        else:
            _add_to_turn(_turn(made, item), item)
    # A thought that nothing came of says nothing to chat.
    return [message for message in made if message["role"] != "assistant" or message.keys() & {"content", "tool_calls"}]


def _turn(made: list[Fields], item: Item) -> Fields:
    """The assistant's message that this item belongs to: the last one, unless that holds what comes after the item."""
    last = made[-1] if made else {}
    full = {"content"} if isinstance(item, MessageItem) else {"content", "tool_calls", "reasoning_content"}
    if last.get("role") != "assistant" or (not isinstance(item, FunctionCallItem) and last.keys() & full):
        last = {"role": "assistant"}
        made.append(last)
    return last


def _add_to_turn(turn: Fields, item: Item) -> None:
    if isinstance(item, MessageItem):
        turn["content"] = _content(item.content)
    elif isinstance(item, FunctionCallItem):
        function = {"name": item.name, "arguments": item.arguments}
        turn.setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": function})
    elif isinstance(item, ReasoningItem) and (text := _thought(item)):
        turn["reasoning_content"] = text


def _thought(item: ReasoningItem) -> str:
    return "\n".join(part.text for part in item.content or item.summary or ())


def _content(content: str | list[Part]) -> str | list[Fields]:
    """Text alone goes as a string, which every engine and template reads."""
    if isinstance(content, str):
        return content
    parts = [_part(part) for part in content]
    return parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else parts


def _part(part: Part) -> Fields:
    if part.type == "input_image":
        url = {"url": part.image_url} | ({"detail": part.detail} if part.detail else {})
        return {"type": "image_url", "image_url": url}
    return {"type": "text", "text": part.refusal if part.type == "refusal" else part.text}


def _format(wanted: TextFormat) -> Fields | None:
    if wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "json_object"}
    schema = {name: getattr(wanted, name) for name in ("name", "schema", "strict", "description")}
    return {"type": "json_schema", "json_schema": {name: value for name, value in schema.items() if value is not None}}


def _tools(parsed: Parsed) -> Fields:
    if not parsed.tools:
        return {}
    choice: Any = parsed.choice
    if isinstance(choice, NamedFunction):
        choice = {"type": "function", "function": {"name": choice.name}}
    return {
        "tools": [_tool(tool) for tool in parsed.tools],
        "tool_choice": choice,
        "parallel_tool_calls": parsed.request.parallel_tool_calls,
    }


def _tool(tool: FunctionTool) -> Fields:
    told = {name: getattr(tool, name) for name in ("name", "description", "parameters", "strict")}
    return {"type": "function", "function": {name: value for name, value in told.items() if value is not None}}


def _logprobs(request: ResponsesRequest) -> Fields:
    if request.top_logprobs is None and _LOGPROBS not in (request.include or ()):
        return {}
    return {"logprobs": True, "top_logprobs": request.top_logprobs}
