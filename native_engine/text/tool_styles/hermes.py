"""Hermes, Qwen and their kin: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one object each."""

from __future__ import annotations

import re
from functools import partial

from native_engine.text.tool_calls import JsonCallReader, JsonForm
from native_engine.text.tool_styles.style import ToolStyle

START, END = "<tool_call>", "</tool_call>"

HERMES = ToolStyle(
    name="hermes",
    taught=re.compile(START + r'(?:\\n|\s)*\{\\?"'),  # others write other things behind the same mark
    trigger=START,
    head=f'{START}\n{{"name": {{name}}, "arguments": ',
    tail=f"}}\n{END}",
    joint="\n",
    reader=partial(JsonCallReader, JsonForm(START, END)),
    marks=(START, END, "<tool_response>", "</tool_response>"),
)
