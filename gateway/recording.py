"""The prompt and the answer of a request whose tenant has them recorded, as the GenAI conventions write messages.

Texts alone, and of those so much: images, sounds and vectors are told by their kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from backends.base import Fields
from backends.telemetry.spans import Attributes
from gateway.scope import RequestScope
from gateway.streaming.collect import collected

MOST_CHARACTERS = 65_536  # of all texts of a prompt together, and of an answer
_INPUTS = ("prompt", "input", "query", "documents")  # of the forms that are no chat

Messages = dict[str, list[dict[str, Any]]]


def messages(request: RequestScope, events: Sequence[bytes]) -> Messages:
    """`events`: what the client was sent of the answer."""
    try:
        answer = _output(collected(request, events).get("choices") or ())
    except Exception:  # whatever an engine sent: it was passed on, and being recorded must not change that
        answer = []
    return {"input_messages": _input(request.fields), "output_messages": answer}


def attributes(recorded: Messages) -> Attributes:
    """JSON in a string: attributes of spans have no structure."""
    return {f"gen_ai.{name.replace('_', '.')}": json.dumps(told) for name, told in recorded.items()}


def _input(fields: Fields) -> list[dict[str, Any]]:
    short = _Shortener()
    if "messages" in fields:
        return [_message(each, short) for each in msgspec.json.decode(fields["messages"])]
    inputs = [msgspec.json.decode(fields[name]) for name in _INPUTS if name in fields]
    return [{"role": "user", "parts": _parts(each, short)} for each in inputs]


def _output(choices: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    short, found = _Shortener(), []
    for choice in choices:
        said = choice.get("message") or {"content": choice.get("text")}
        found.append(_message({"role": "assistant", **said}, short) | {"finish_reason": choice.get("finish_reason")})
    return found


def _message(message: dict[str, Any], short: _Shortener) -> dict[str, Any]:
    parts = _parts(message.get("content"), short)
    for name in ("reasoning_content", "reasoning"):
        if thought := message.get(name):
            parts.append({"type": "reasoning", "content": short(str(thought))})
    for call in message.get("tool_calls") or ():
        called = call.get("function") or {}
        arguments = short(str(called.get("arguments", "")))
        parts.append({"type": "tool_call", "id": call.get("id"), "name": called.get("name"), "arguments": arguments})
    return {"role": message.get("role"), "parts": parts}


def _parts(content: Any, short: _Shortener) -> list[dict[str, Any]]:
    """Of a text, of a list of texts or of parts, or of token ids."""
    if content is None:
        return []
    if not isinstance(content, list) or not all(isinstance(each, str | dict) for each in content):
        text = content if isinstance(content, str) else json.dumps(content)
        return [{"type": "text", "content": short(text)}]
    return [part for each in content for part in _part(each, short)]


def _part(part: str | dict[str, Any], short: _Shortener) -> list[dict[str, Any]]:
    if isinstance(part, str) or "text" in part:
        return [{"type": "text", "content": short(str(part if isinstance(part, str) else part["text"]))}]
    return [{"type": str(part.get("type"))}]


class _Shortener:
    """Cuts texts so that all together keep within the bound."""

    def __init__(self) -> None:
        self._left = MOST_CHARACTERS

    def __call__(self, text: str) -> str:
        kept = text[: self._left]
        self._left -= len(kept)
        return kept if kept == text else f"{kept}… ({len(text) - len(kept)} characters more)"
