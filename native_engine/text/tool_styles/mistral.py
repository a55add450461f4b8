"""Mistral: [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], newer models [TOOL_CALLS]name[ARGS]{...}."""

from __future__ import annotations

import re

from native_engine.text.tool_calls import JsonCallReader, JsonForm, Read
from native_engine.text.tool_styles.style import ToolStyle

_START, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_NAMED = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\]\s*)?(?=\{)")
_BEGINNING = re.compile(r"[\w.-]+(?:\[\w*(?:\]\w*)?)?(?:\[\w*\]?\s*)?")


class MistralReader(JsonCallReader):
    """Both ways of writing: a model may have been taught the other than its template says."""

    def __init__(self) -> None:
        super().__init__(JsonForm(_START, "]", "[,"))

    def _other(self, rest: str) -> Read | None:
        if not self._unsure:
            return super()._other(rest)
        match = _NAMED.match(rest)
        if match:
            begun = self._begin(match[1], rest[match.end() :])
            self._after_arguments = self._outside
            return begun
        return None if _BEGINNING.fullmatch(rest) else super()._other(rest)


MISTRAL_NAMED = ToolStyle(
    name="mistral",
    taught=re.compile(re.escape(_ARGS)),
    trigger=_START,
    head=f"{_START}{{name}}{_ARGS}",
    tail="",
    reader=MistralReader,
    marks=(_START, _ARGS, _ID),
    quotes_name=False,
    short_ids=True,
)
MISTRAL_LIST = ToolStyle(
    name="mistral-list",
    taught=re.compile(re.escape(_START)),
    trigger=_START,
    opening=f"{_START}[",
    head='{"name": {name}, "arguments": ',
    tail="}",
    joint=", ",
    closing="]",
    reader=MistralReader,
    marks=(_START,),
    short_ids=True,
)
