"""Grammars put together: a thought before an answer, calls of tools alone or among text. Knows no request.

A mark that is a token of its own is written as that token, which no text in a grammar matches; another as its letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from native_engine.text.thoughts import Opening, ThoughtStyle
from native_engine.text.tool_styles.style import ToolStyle

# Room to print prettily, none to go on with blanks for ever, as small models do.
BLANKS = r"[ ]?|\n[ ]{0,16}"
_TEXT = r"TEXT: /(.|\n)*/"
ANY_TEXT = f"start: TEXT\n{_TEXT}"

Marks = Mapping[str, int]


class Callable(NamedTuple):
    """`schema`: of the arguments, as a JSON schema."""

    name: str
    schema: Mapping[str, Any]


def behind_thought(grammar: str, style: ThoughtStyle, opening: Opening, marks: Marks) -> str:
    """The answer keeps to `grammar`; the thought before it, if one was begun or comes, is free."""
    if opening == "none":
        return grammar
    rest = f"thought_rest {_literal(style.bridge, marks)}"
    start = f"{rest} BREAK? @answer"
    if opening == "possible":
        start = f"({_literal(style.start, marks)} {rest} BREAK?)? @answer"
    lark = [f"start: {start}", _up_to("thought_rest", style.end, marks), _TEXT, r"BREAK: /\s{1,4}/"]
    return _named({"thought": "\n".join(lark), "answer": grammar})


def headed(grammar: str, head: str, marks: Marks) -> str:
    """An answer as `grammar` has it, behind the mark of where answers begin."""
    return _named({"headed": f"start: {_literal(head, marks)} @content", "content": grammar}) if head else grammar


def calls(style: ToolStyle, tools: Sequence[Callable], marks: Marks, *, several: bool) -> str:
    """Nothing but calls."""
    return "\n".join([f"start: {_all_calls(style, marks, several=several)}", *_each_call(style, tools, marks)])


def calls_among_text(style: ToolStyle, tools: Sequence[Callable], marks: Marks, *, several: bool) -> str:
    """Any text; but what begins as a call goes on as one."""
    again = "*" if several and not style.at_start else "?"
    lead = _up_to("lead", style.trigger, marks)
    if style.at_start:
        lead = f"lead[lazy]: {_literal(style.trigger, marks)}"
    # What a model writes behind the last of its calls is free, as long as it is no call.
    return "\n".join(
        [
            f"start: (lead {_all_calls(style, marks, several=several, behind_trigger=True)}){again} TEXT",
            lead,
            _TEXT,
            *_each_call(style, tools, marks),
        ]
    )


def either(first: str, second: str) -> str:
    return _named({"either": "start: @first | @second", "first": first, "second": second})


def _all_calls(style: ToolStyle, marks: Marks, *, several: bool, behind_trigger: bool = False) -> str:
    opening, joint, closing = (_literal(text, marks) for text in (style.opening, style.joint, style.closing))
    more = f"({joint} call)*" if several else ""
    if behind_trigger:
        opening = _literal(style.opening.removeprefix(style.trigger), marks)
    return f"{opening} {'first' if behind_trigger and not style.opening else 'call'} {more} {closing}"


def _each_call(style: ToolStyle, tools: Sequence[Callable], marks: Marks) -> list[str]:
    """`first` is a call less the trigger. Each schema stays the root of its own, so that references in it hold."""
    rules = []
    for rule, strip in (("call", ""), ("first", style.trigger)):
        options = " | ".join(f"{rule}_{index}" for index in range(len(tools)))
        rules.append(f"{rule}: {options}")
        for index, tool in enumerate(tools):
            name = json.dumps(tool.name, ensure_ascii=False) if style.quotes_name else tool.name
            head = style.head.replace("{name}", name).removeprefix(strip)
            rules.append(f"{rule}_{index}: {_literal(head, marks)} arguments_{index} {_literal(style.tail, marks)}")
    for index, tool in enumerate(tools):
        schema = {**tool.schema, "x-guidance": {"whitespace_pattern": BLANKS, **tool.schema.get("x-guidance", {})}}
        rules.append(f"arguments_{index}: %json {json.dumps(schema)}")
    return rules


def _up_to(rule: str, mark: str, marks: Marks) -> str:
    """Any text, to the first `mark`."""
    literal = _literal(mark, marks)
    return f"{rule}: TEXT {literal}" if literal.startswith("<") else f"{rule}[lazy]: TEXT {literal}"


def _literal(text: str, marks: Marks) -> str:
    pattern = "|".join(map(re.escape, sorted(marks, key=len, reverse=True)))
    parts = re.split(f"({pattern})", text) if pattern else [text]
    return " ".join(
        f"<[{marks[part]}]>" if part in marks else json.dumps(part, ensure_ascii=False) for part in parts if part
    )


def _named(grammars: Mapping[str, str]) -> str:
    """Several that refer to each other by name; the first is the whole."""
    made: list[dict[str, Any]] = []
    for name, text in grammars.items():
        inner = json.loads(text)["grammars"] if text.startswith("{") else [{"lark_grammar": text}]
        made += [{**each, "name": name if index == 0 else each["name"]} for index, each in enumerate(inner)]
    return json.dumps({"grammars": made})
