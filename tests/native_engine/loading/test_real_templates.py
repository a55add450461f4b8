"""Templates of real models, rendered as transformers renders them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from native_engine.loading.chat_template import ChatTemplate
from native_engine.text.answer_style import answer_style

FOLDER = Path(__file__).parents[2] / "data" / "templates"
LLAMA_LIKE = """{{- bos_token }}{%- set today = strftime_now("%d %b %Y") %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday: " + today + "\\n" }}
{%- if tools is not none and tools is defined %}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of arguments}.\\n' }}
    {%- for tool in tools %}{{- tool | tojson(indent=4) }}{%- endfor %}
{%- endif %}
{%- for message in messages %}
    {{- '<|eot_id|><|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message.tool_calls %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + "}" }}
    {%- else %}
        {{- message['content'] | trim }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|eot_id|><|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
GEMMA_LIKE = """{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}
{%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}{%- set loop_messages = messages[1:] -%}
{%- else -%}{%- set first_user_prefix = "" -%}{%- set loop_messages = messages -%}{%- endif -%}
{%- for message in loop_messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception("Conversation roles must alternate user/assistant") }}{%- endif -%}
{%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
{{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
{%- if message['content'] is string -%}{{ message['content'] | trim }}{%- endif -%}
{{ '<end_of_turn>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"""
TEMPLATES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))} | {
    "llama-like": LLAMA_LIKE,
    "gemma-like": GEMMA_LIKE,
}

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "<b> é"}},
    "required": ["city"],
}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Of a city", "parameters": PARAMETERS}}
]
USER, SAID = {"role": "user", "content": "hi é <b>"}, {"role": "assistant", "content": "yes"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "P"}}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": '{"t": 1}'}
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "plain": ([USER], {}),
    "system": ([{"role": "system", "content": "be"}, USER, SAID, USER], {}),
    "tools": ([USER], {"tools": TOOLS}),
    "calls": ([USER, CALL, RESULT], {"tools": TOOLS}),
    "no thoughts": ([USER], {"enable_thinking": False}),
    "effort": ([USER], {"reasoning_effort": "low"}),
    "thought in content": ([USER, SAID | {"content": "<think>\nq\n</think>\n\nyes"}, USER], {}),
    "thought": ([USER, SAID | {"reasoning_content": "q"}, USER], {}),
    "continued": ([USER, SAID], {"continue_final_message": True}),
    "no opening": ([USER], {"add_generation_prompt": False}),
}


def rendered(source: str, messages: list[dict[str, Any]], settings: dict[str, Any]) -> str:
    known = ("tools", "continue_final_message", "add_generation_prompt")
    variables = {key: value for key, value in settings.items() if key not in known}
    given = {key: value for key, value in settings.items() if key in known}
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render(messages, variables=variables, **given)


# The Gemma-like one knows no tools, and refuses their role.
PAIRS = [(name, case) for name in TEMPLATES for case in CASES if (name, case) != ("gemma-like", "calls")]


@pytest.mark.parametrize(("name", "case"), PAIRS)
def test_a_template_gives_what_transformers_makes_of_it(name: str, case: str) -> None:
    messages, settings = CASES[case]
    wanted, _ = render_jinja_template(
        [messages],
        chat_template=TEMPLATES[name],
        bos_token="<s>",
        eos_token="</s>",
        **{"add_generation_prompt": not settings.get("continue_final_message"), **settings},
    )
    assert rendered(TEMPLATES[name], messages, settings) == wanted[0]


@pytest.mark.parametrize(
    ("name", "thoughts", "calls", "opening", "closed"),
    [
        ("qwen3", "<think>", "hermes", "possible", "none"),
        ("gpt-oss", "<|channel|>analysis<|message|>", "harmony", "possible", "possible"),
        ("mistral-nemo", None, "mistral-list", "none", "none"),
        ("llama-like", None, "llama", "none", "none"),
        ("gemma-like", None, None, "none", "none"),
    ],
)
def test_a_template_tells_how_its_model_thinks_and_calls(
    name: str, thoughts: str | None, calls: str | None, opening: str, closed: str
) -> None:
    style = answer_style(TEMPLATES[name], ())
    assert (style.thoughts and style.thoughts.start, style.calls and style.calls.name) == (thoughts, calls)
    assert style.opening(rendered(TEMPLATES[name], [USER], {})) == opening
    assert style.opening(rendered(TEMPLATES[name], [USER], {"enable_thinking": False})) == closed


def test_a_prompt_may_begin_the_thought() -> None:
    source = TEMPLATES["qwen3"].replace(
        "<|im_start|>assistant\\n' }}\n    {%- if enable", "<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable"
    )
    assert source != TEMPLATES["qwen3"]
    assert answer_style(source, ()).opening(rendered(source, [USER], {})) == "begun"
