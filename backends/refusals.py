"""What a request asks for that an engine cannot do: the checks that adapters share. Pure; knows no engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from backends.base import Fields, Refusal

# As many choices as the official service gives at most. Prompts multiply them, and each is a sequence in the engine.
MOST_ANSWERS = 128

# What no engine but ours does, each with the value beside null that asks for nothing.
NOWHERE: Mapping[str, Any] = {
    "functions": [],
    "function_call": "none",
    "modalities": ["text"],
    "audio": None,
    "web_search_options": None,
    "verbosity": "medium",
    "best_of": 1,
    "suffix": "",
}

_SEVERAL_PROMPTS = re.compile(rb'\[\s*["\[]')
_ABSENT = msgspec.Raw(b"null")


class _Turn(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw()


class _Part(msgspec.Struct):
    type: str = ""


_turns = msgspec.json.Decoder(list[_Turn]).decode
_parts = msgspec.json.Decoder(list[_Part]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


def unable(fields: Fields, names: Mapping[str, Any]) -> Refusal | None:
    """The first field of `names` that asks for something; to each name belongs the value that asks for nothing."""
    for name, value in fields.items():
        if name in names and msgspec.json.decode(value) not in (None, names[name]):
            return Refusal(f"The engine of this model would ignore '{name}'. Leave it out, or use another model.", name)
    return None


def too_many_answers(fields: Fields, most: int = MOST_ANSWERS) -> Refusal | None:
    asked = answers(fields)
    if asked <= most:
        return None
    param = "n" if "n" in fields else "prompt"
    return Refusal(f"This asks for {asked} answers at once; {most} is the most. Ask several times.", param)


def answers(fields: Fields) -> int:
    """How many answers are asked for: choices times prompts."""
    choices = msgspec.json.decode(fields.get("n", _ABSENT)) or 1
    prompt = bytes(fields.get("prompt", _ABSENT))
    prompts = len(_items(prompt) or ()) if _SEVERAL_PROMPTS.match(prompt) else 1
    return int(choices) * prompts


def unreadable_content(fields: Fields, *, images: bool) -> Refusal | None:
    """Content that the engine's model cannot read: anything but text, and images where it reads those."""
    readable = {"text", "refusal", "image_url"} if images else {"text", "refusal"}
    for index, turn in enumerate(_conversation(fields)):
        parts = _parts(turn.content) if bytes(turn.content).startswith(b"[") else []
        for place, part in enumerate(parts):
            if part.type not in readable:
                return Refusal(
                    f"This model cannot read a content part of type '{part.type[:50]}'. Send it as text.",
                    f"messages[{index}].content[{place}].type",
                    "unsupported_content",
                )
    return None


def tools(fields: Fields) -> Refusal | None:
    """For an engine that calls no tools. Tools that must not be called are none."""
    if not _items(fields.get("tools", _ABSENT)) or says(fields, "tool_choice", b'"none"'):
        return None
    return Refusal("This model's engine cannot call tools. Leave them out, or use another model.", "tools")


def says(fields: Fields, name: str, value: bytes) -> bool:
    """Whether the field is there with just this value."""
    return bytes(fields.get(name, _ABSENT)) == value


def ends_with_an_answer(fields: Fields) -> bool:
    turns = _conversation(fields)
    return bool(turns) and turns[-1].role == "assistant"


def _conversation(fields: Fields) -> list[_Turn]:
    return _turns(fields["messages"]) if "messages" in fields else []
