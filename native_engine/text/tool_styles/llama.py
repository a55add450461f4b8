"""Llama 3.x: the answer is {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>, several joined by ';'."""

from __future__ import annotations

import re
from functools import partial

from native_engine.text.tool_calls import JsonCallReader, JsonForm
from native_engine.text.tool_styles.style import ToolStyle

_TAG = "<|python_tag|>"

LLAMA = ToolStyle(
    name="llama",
    taught=re.compile(re.escape(_TAG) + r"|" + re.escape('{"name": function name, "parameters"')),
    trigger='{"name": "',
    head='{"name": {name}, "parameters": ',
    tail="}",
    joint="; ",
    reader=partial(JsonCallReader, JsonForm(_TAG, separators=";", keys=("parameters", "arguments"), at_start=True)),
    marks=(_TAG,),
    at_start=True,
)
