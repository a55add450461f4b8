"""Tools of a request: whether this model can call them, how they are shown to it, and what its calls must look like."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, Tool
from native_engine.loading.chat_template import ChatTemplate
from native_engine.server.forms import BLANKS, Form
from native_engine.text.tool_calls import CallPiece
from native_engine.text.tool_styles import STYLES, taught_style
from native_engine.text.tool_styles.hermes import END, START

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


def may_call(request: ChatRequest) -> bool:
    return bool(request.tools) and request.tool_choice != "none"


def check_tools(request: ChatRequest, template: ChatTemplate | None) -> None:
    """Raises InvalidRequest for tools that this model cannot call, and for choices between none."""
    if not request.tools:
        if request.tool_choice not in (None, "none", "auto"):
            raise _invalid("'tool_choice' needs 'tools' to choose from.", "tool_choice")
        return
    if template is None or not template.knows_tools:
        raise _unsupported("its chat template knows none")
    if taught_style(template.source) is None:
        known = ", ".join(style.name for style in STYLES)
        raise _unsupported(f"its chat template teaches none of the styles of calls that are known here ({known})")
    if may_call(request) and request.response_format is not None and request.response_format.type != "text":
        raise _invalid("'response_format' cannot be combined with 'tools' by this engine.", "response_format")
    if request.tool_choice not in (None, "none", "auto", "required"):
        _named(request)


def shown_tools(request: ChatRequest) -> list[dict[str, Any]] | None:
    """As templates know them."""
    if not may_call(request):
        return None
    return [_without_nulls(msgspec.to_builtins(tool)) for tool in request.tools or ()]


def call_form(request: ChatRequest) -> Form | None:
    """Where a call is required: what the answer has to be."""
    if not may_call(request) or request.tool_choice in (None, "auto"):
        return None
    if request.tool_choice == "required":
        return Form(_grammar(request.tools or (), several=request.parallel_tool_calls is not False), "tools")
    return Form(_grammar([_named(request)], several=False), "tools")


def call_delta(piece: CallPiece) -> dict[str, Any]:
    """One streamed piece: id, type and name with the first of a call only."""
    if piece.name is None:
        return {"index": piece.call, "function": {"arguments": piece.arguments}}
    return {"index": piece.call, **_call(piece.name, "")}


def whole_calls(pieces: Iterable[CallPiece]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        if piece.name is not None:
            calls.append(_call(piece.name, ""))
        calls[-1]["function"]["arguments"] += piece.arguments
    return calls


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"call_{uuid.uuid4().hex[:24]}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _named(request: ChatRequest) -> Tool:
    """The tool that has to be called."""
    match request.tool_choice:
        case {"type": "function", "function": {"name": str(name)}}:
            for tool in request.tools or ():
                if tool.function.name == name:
                    return tool
            raise _invalid(f"'tool_choice' names the tool '{name[:100]}', which is not in 'tools'.", "tool_choice")
    raise _invalid("'tool_choice' must be none, auto, required, or name a function.", "tool_choice")


def _grammar(tools: Iterable[Tool], *, several: bool) -> str:
    """Each tool's parameters stay the root of their own schema, so that references in them hold."""
    rules = []
    tail = _literal(f"}}\n{END}")
    for index, tool in enumerate(tools):
        head = f'{START}\n{{"name": {json.dumps(tool.function.name, ensure_ascii=False)}, "arguments": '
        schema = {**(tool.function.parameters or _NO_PARAMETERS), "x-guidance": {"whitespace_pattern": BLANKS}}
        rules.append(f"call_{index}: {_literal(head)} arguments_{index} {tail}")
        rules.append(f"arguments_{index}: %json {json.dumps(schema)}")
    calls = " | ".join(f"call_{index}" for index in range(len(rules) // 2))
    start = 'call ("\\n" call)*' if several else "call"
    return "\n".join([f"start: {start}", f"call: {calls}", *rules])


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


def _unsupported(reason: str) -> InvalidRequest:
    return InvalidRequest(f"'tools' cannot be used with this model: {reason}.", "tools", "unsupported_parameter")


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, field, "invalid_value")
