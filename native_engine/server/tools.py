"""Tools of a request: whether this model can call them, how they are shown to it, and what its calls must look like."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, Tool
from native_engine.loading.chat_template import ChatTemplate
from native_engine.server.forms import check_free_to_end
from native_engine.structured import composing
from native_engine.structured.composing import ANY_TEXT, Callable, Marks, calls_among_text, either, headed
from native_engine.structured.grammars import Form
from native_engine.text.tool_calls import CallPiece
from native_engine.text.tool_styles import STYLES, taught_style
from native_engine.text.tool_styles.style import ToolStyle

_LENIENT = {"lenient": True}
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
    if request.tool_choice not in (None, "none", "auto", "required"):
        _named(request)


def shown_tools(request: ChatRequest) -> list[dict[str, Any]] | None:
    """As templates know them."""
    if not may_call(request):
        return None
    return [_without_nulls(msgspec.to_builtins(tool)) for tool in request.tools or ()]


def called_form(
    request: ChatRequest, style: ToolStyle, marks: Marks, form: Form | None, text_head: str = ""
) -> Form | None:
    """What an answer with tools has to be: calls where they are required, or else also `form`, or any text.

    `text_head`: what any text begins with, where something marks it.
    """
    several = request.parallel_tool_calls is not False
    if request.tool_choice in (None, "auto"):
        tools = _callables(request.tools or ())
        if form is not None and style.at_start:
            raise _invalid(f"'{form.field}' cannot be told from a call of 'tools' with this model.", form.field)
        if form is not None:
            return form._replace(grammar=either(composing.calls(style, tools, marks, several=several), form.grammar))
        if request.min_tokens or request.ignore_eos:  # which no form is free to follow, and none was asked for
            return None
        if text_head:
            text = headed(ANY_TEXT, text_head, marks)
            return Form(either(composing.calls(style, tools, marks, several=several), text), "tools")
        return Form(calls_among_text(style, tools, marks, several=several), "tools")
    if form is not None:
        raise _invalid(f"'tool_choice' asks for a call, and '{form.field}' for something else.", form.field)
    check_free_to_end(request)
    if request.tool_choice == "required":
        return Form(composing.calls(style, _callables(request.tools or ()), marks, several=several), "tools")
    return Form(composing.calls(style, _callables([_named(request)]), marks, several=False), "tools")


def _callables(tools: Iterable[Tool]) -> list[Callable]:
    """A schema that says more than a grammar can is refused of a strict tool, and kept to in part of another."""
    return [
        Callable(
            tool.function.name,
            (tool.function.parameters or _NO_PARAMETERS) | ({} if tool.function.strict else {"x-guidance": _LENIENT}),
        )
        for tool in tools
    ]


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


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


def _unsupported(reason: str) -> InvalidRequest:
    return InvalidRequest(f"'tools' cannot be used with this model: {reason}.", "tools", "unsupported_parameter")


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, field, "invalid_value")
