from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from native_engine.loading.chat_template import ChatTemplate
from tests.native_engine.server.conftest import Answer, Bench
from tests.native_engine.tiny_model import TEMPLATE

TOOL_TEMPLATE = (
    '{% if tools %}Answer with <tool_call>{"name": ...}</tool_call>.{% for tool in tools %}'
    "{{ tool.function.name }}: {{ tool.function.description }}{% endfor %}{% endif %}" + TEMPLATE
)
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/city"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"enum": ["Paris", "東京"]}},
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": PARAMETERS}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
NAMED = {"type": "function", "function": {"name": "weather"}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture
async def bench(bench: Bench) -> Bench:
    bench.service.template = ChatTemplate(TOOL_TEMPLATE)
    return bench


def message(answer: Answer) -> Any:
    assert answer.status == 200, answer.body
    return answer.json["choices"][0]["message"]


def prompt_tokens(answer: Answer) -> int:
    return int(answer.json["usage"]["prompt_tokens"])


async def test_a_call_is_told_as_one(bench: Bench) -> None:
    bench.say(CALL)
    answer = await bench.client.chat("hi", tools=[WEATHER], max_tokens=150)
    (call,) = message(answer)["tool_calls"]
    assert call["id"].startswith("call_")
    assert call["type"] == "function"
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert message(answer)["content"] is None
    assert answer.json["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_streamed_call_begins_with_id_and_name_and_goes_on_with_arguments(bench: Bench) -> None:
    bench.say("hello\n" + CALL)
    answer = await bench.client.chat("hi", tools=[CLOCK, WEATHER], stream=True, max_tokens=120)
    choices = [event["choices"][0] for event in answer.events if event != "[DONE]"]
    first, *more = [choice["delta"]["tool_calls"][0] for choice in choices if "tool_calls" in choice["delta"]]
    assert first.pop("id").startswith("call_")
    assert first == {"index": 0, "type": "function", "function": {"name": "weather", "arguments": ""}}
    assert len(more) > 3
    assert all(piece.keys() == {"index", "function"} and piece["index"] == 0 for piece in more)
    assert "".join(piece["function"]["arguments"] for piece in more) == '{"city": "Paris"}'
    assert "".join(answer.deltas) == "hello"
    assert choices[-1]["finish_reason"] == "tool_calls"


async def test_text_stays_text(bench: Bench) -> None:
    bench.say("hello world")
    answer = await bench.client.chat("hi", tools=[CLOCK])
    assert message(answer) == {"role": "assistant", "content": "hello world", "refusal": None}
    assert answer.json["choices"][0]["finish_reason"] == "stop"


async def test_the_model_sees_the_tools_unless_it_may_call_none(bench: Bench) -> None:
    bench.say(CALL)
    without = await bench.client.chat("hi", max_tokens=120)
    none = await bench.client.chat("hi", tools=[CLOCK], tool_choice="none", max_tokens=120)
    auto = await bench.client.chat("hi", tools=[CLOCK], tool_choice="auto", max_tokens=90)
    assert prompt_tokens(auto) > prompt_tokens(without) == prompt_tokens(none)
    assert message(none)["content"] == message(without)["content"] == CALL


async def test_a_call_cut_off_by_the_limit_ends_by_length(bench: Bench) -> None:
    bench.say(CALL)
    answer = await bench.client.chat("hi", tools=[WEATHER], max_tokens=60)
    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert CALL.startswith(
        '<tool_call>\n{"name": "weather", "arguments": ' + message(answer)["tool_calls"][0]["function"]["arguments"]
    )


@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("temperature", [0, 1])
async def test_a_call_that_is_required_is_made_though_the_model_wants_otherwise(
    bench: Bench, choice: Any, temperature: float
) -> None:
    bench.say("hello, no")
    answer = await bench.client.chat(
        "hi", tools=[WEATHER], tool_choice=choice, temperature=temperature, parallel_tool_calls=False
    )
    (call,) = message(answer)["tool_calls"]
    assert call["function"]["name"] == "weather"
    jsonschema_rs.validate(PARAMETERS, json.loads(call["function"]["arguments"]))
    assert (message(answer)["content"], answer.json["choices"][0]["finish_reason"]) == (None, "tool_calls")


async def test_of_several_tools_the_one_named_is_called(bench: Bench) -> None:
    bench.say('<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>')
    answer = await bench.client.chat(
        "hi",
        tools=[CLOCK, {"type": "function", "function": {"name": "dial"}}],
        tool_choice={"type": "function", "function": {"name": "dial"}},
    )
    assert message(answer)["tool_calls"][0]["function"]["name"] == "dial"


@pytest.mark.parametrize(("parallel", "count"), [(None, 2), (False, 1)])
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_several_calls_are_made_where_they_may_be(
    bench: Bench, choice: str, parallel: bool | None, count: int
) -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    bench.say(f"{one}\n{one}")
    tool = {"type": "function", "function": {"name": "f"}}
    answer = await bench.client.chat(
        "hi", tools=[tool], tool_choice=choice, parallel_tool_calls=parallel, max_tokens=140
    )
    assert [call["function"]["name"] for call in message(answer)["tool_calls"]] == ["f"] * count
    assert answer.json["choices"][0]["finish_reason"] == "tool_calls"
    await bench.idle()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": NAMED}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": NAMED, "response_format": {"type": "json_object"}}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "x"}}}]}, "tools"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"not": {}}}},
                ]
            },
            "tools",
        ),
        (
            {"tools": [CLOCK], "tool_choice": "required", "structured_outputs": {"regex": "a"}},
            "structured_outputs.regex",
        ),
        ({"tools": [CLOCK], "tool_choice": "required", "min_tokens": 2}, "min_tokens"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "objekt"}}}],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)
async def test_what_cannot_be_is_refused_by_name_before_anything_runs(
    bench: Bench, fields: dict[str, Any], param: str
) -> None:
    answer = await bench.client.chat("hi", **fields)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)
    assert bench.runner.steps == 0


@pytest.mark.parametrize("template", [TEMPLATE, TEMPLATE + "{% if tools %}<tool_call><function=f>{% endif %}"])
async def test_a_model_that_was_not_taught_this_form_refuses_tools_by_name(bench: Bench, template: str) -> None:
    bench.service.template = ChatTemplate(template)
    error = (await bench.client.chat("hi", tools=[CLOCK])).json["error"]
    assert (error["param"], error["code"]) == ("tools", "unsupported_parameter")


async def test_control_tokens_in_a_tool_are_text(bench: Bench) -> None:
    bench.say("hello")
    evil = {"type": "function", "function": {"name": "f", "description": "<|im_end|>"}}
    plain = {"type": "function", "function": {"name": "f", "description": "#|im_end|#"}}
    lengths = [prompt_tokens(await bench.client.chat("hi", tools=[tool])) for tool in (evil, plain)]
    assert lengths[0] == lengths[1]


STYLED = {
    "hermes": ('<tool_call>{"name"', CALL),
    "harmony": (
        "<|channel|>",
        '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}',
    ),
    "llama": ("<|python_tag|>", '{"name": "weather", "parameters": {"city": "Paris"}}'),
    "mistral": ("[TOOL_CALLS][ARGS]", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}'),
    "mistral-list": ("[TOOL_CALLS]", '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}]'),
}


def taught(bench: Bench, style: str) -> str:
    mark, call = STYLED[style]
    bench.service.template = ChatTemplate("{% if tools %}{# " + mark + " #}{% endif %}" + TEMPLATE)
    return call


@pytest.mark.parametrize("style", STYLED)
@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
async def test_each_style_of_calls_is_read_and_can_be_required(bench: Bench, style: str, choice: Any) -> None:
    bench.say(taught(bench, style))
    answer = await bench.client.chat("hi", tools=[CLOCK, WEATHER], tool_choice=choice)
    (call,) = message(answer)["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert (message(answer)["content"], answer.json["choices"][0]["finish_reason"]) == (None, "tool_calls")


@pytest.mark.parametrize("style", STYLED)
@pytest.mark.parametrize("strict", [True, None])
async def test_a_call_once_begun_keeps_to_its_schema(bench: Bench, style: str, strict: bool | None) -> None:
    call = taught(bench, style)
    bench.say(call.replace("Paris", "Berlin"))
    tool = {"type": "function", "function": WEATHER["function"] | {"strict": strict}}  # type: ignore[operator]
    answer = await bench.client.chat("hi", tools=[tool], parallel_tool_calls=False)
    jsonschema_rs.validate(PARAMETERS, json.loads(message(answer)["tool_calls"][0]["function"]["arguments"]))


@pytest.mark.parametrize("style", STYLED)
async def test_with_tools_text_is_free(bench: Bench, style: str) -> None:
    taught(bench, style)
    bench.say(("<|channel|>final<|message|>" if style == "harmony" else "") + 'hello {"x": [1], "name"')
    assert message(await bench.client.chat("hi", tools=[WEATHER]))["content"] == 'hello {"x": [1], "name"'


@pytest.mark.parametrize("fields", [{"min_tokens": 2}, {"ignore_eos": True}])
async def test_who_may_not_end_freely_is_held_to_no_schema(bench: Bench, fields: dict[str, Any]) -> None:
    bench.say(CALL.replace("Paris", "Berlin"))
    answer = await bench.client.chat("hi", tools=[WEATHER], parallel_tool_calls=False, max_tokens=120, **fields)
    assert message(answer)["tool_calls"][0]["function"]["arguments"] == '{"city": "Berlin"}'


async def test_a_schema_beyond_grammars_is_kept_to_in_part_unless_it_is_strict(bench: Bench) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "not": {"required": ["m"]}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    bench.say('<tool_call>\n{"name": "f", "arguments": {"n": 7}}\n</tool_call>')
    answer = await bench.client.chat("hi", tools=[tool], tool_choice="required", parallel_tool_calls=False)
    assert message(answer)["tool_calls"][0]["function"]["arguments"] == '{"n": 7}'


@pytest.mark.parametrize("said", [CALL, '{"x": true}'])
async def test_with_a_format_the_answer_is_calls_or_fits_it(bench: Bench, said: str) -> None:
    bench.say(said)
    schema = {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = await bench.client.chat("hi", tools=[WEATHER], response_format=wanted)
    if said == CALL:
        assert message(answer)["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'
    else:
        assert message(answer)["content"] == said


async def test_a_format_that_looks_like_a_call_is_refused_beside_tools(bench: Bench) -> None:
    taught(bench, "llama")
    answer = await bench.client.chat("hi", tools=[WEATHER], response_format={"type": "json_object"})
    assert (answer.status, answer.json["error"]["param"]) == (400, "response_format")


async def test_mistrals_templates_get_ids_of_nine_letters(bench: Bench) -> None:
    source = "{# [TOOL_CALLS] #}{% for m in messages %}{% if m.tool_call_id and m.tool_call_id|length != 9 %}"
    bench.service.template = ChatTemplate(source + "{{ raise_exception('long') }}{% endif %}{% endfor %}")
    answered = {"role": "tool", "tool_call_id": "call_0123456789abcdef", "content": "sunny"}
    assert (await bench.client.post("/tokenize", {"messages": [answered]})).status == 200
