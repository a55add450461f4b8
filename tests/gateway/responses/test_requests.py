"""What /v1/responses is asked, as the chat request that asks the same; and what cannot be asked."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.errors import InvalidRequest
from backends.wire.requests import parse_chat
from gateway.responses.chat import chat_fields
from gateway.responses.requests import parse_responses

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True, "description": "d"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1", "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}],
}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def chat(**fields: Any) -> dict[str, Any]:
    """The chat request's fields; chat takes every one of them."""
    made = chat_fields(parse_responses(body(**fields)))
    parse_chat(msgspec.json.encode(made))
    return made


def messages(*items: Any, **fields: Any) -> list[Any]:
    return list(chat(input=list(items), **fields)["messages"])


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_responses(body(**fields))
    return caught.value


def test_text_alone_is_one_message_of_the_user() -> None:
    assert chat() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_instructions_come_first() -> None:
    asked = messages({"role": "developer", "content": "b"}, {"role": "user", "content": "c"}, instructions="a")
    assert asked == [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_parts_of_a_message_are_text_and_images() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"}
    text = {"type": "input_text", "text": "a"}
    assert messages({"role": "user", "content": [text]}) == [{"role": "user", "content": "a"}]
    assert messages({"role": "user", "content": [text, image]}) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
            ],
        }
    ]


def test_what_the_assistant_did_in_one_go_is_one_message() -> None:
    second = CALL | {"call_id": "c2", "id": "fc_2"}
    outputs = [OUTPUT, OUTPUT | {"call_id": "c2", "output": [{"type": "input_text", "text": "43"}]}]
    assert messages({"role": "user", "content": "q"}, THOUGHT, SAID, CALL, second, *outputs, SAID) == [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": "yes",
            "tool_calls": [CHAT_CALL, CHAT_CALL | {"id": "c2"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "43"},
        {"role": "assistant", "content": "yes"},
    ]


def test_a_call_may_come_before_the_words() -> None:
    assert messages(CALL, SAID, OUTPUT)[0] == {"role": "assistant", "tool_calls": [CHAT_CALL], "content": "yes"}


def test_two_messages_of_the_assistant_stay_two() -> None:
    assert messages(SAID, SAID) == [{"role": "assistant", "content": "yes"}] * 2


def test_a_new_thought_begins_a_new_message() -> None:
    assert messages(CALL, THOUGHT, SAID) == [
        {"role": "assistant", "tool_calls": [CHAT_CALL]},
        {"role": "assistant", "reasoning_content": "hm", "content": "yes"},
    ]


def test_a_thought_that_nothing_came_of_or_that_cannot_be_read_is_left_out() -> None:
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    assert messages(sealed, SAID, {"role": "user", "content": "q"}, THOUGHT) == [
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "q"},
    ]


def test_of_a_thought_without_its_text_the_summary_is_told() -> None:
    summed = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "in short"}]}
    assert messages(summed, SAID) == [{"role": "assistant", "reasoning_content": "in short", "content": "yes"}]


def test_a_refusal_is_what_was_said() -> None:
    refused = SAID | {"content": [{"type": "refusal", "refusal": "no"}]}
    assert messages(refused) == [{"role": "assistant", "content": "no"}]


def test_tools_and_the_choice_among_them_are_nested_as_chat_nests_them() -> None:
    asked = chat(tools=[TOOL], tool_choice={"type": "function", "name": "f"}, parallel_tool_calls=False)
    function = {"name": "f", "parameters": {"type": "object"}, "strict": True, "description": "d"}
    assert asked["tools"] == [{"type": "function", "function": function}]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert asked["parallel_tool_calls"] is False
    assert chat(tools=[TOOL], tool_choice="required")["tool_choice"] == "required"


def test_without_tools_no_engine_hears_of_a_choice() -> None:
    asked = chat(tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert not asked.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_formats_are_chats_formats() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    named = {name: value for name, value in schema.items() if name != "type"}
    assert chat(text={"format": schema})["response_format"] == {"type": "json_schema", "json_schema": named}
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(text={"format": {"type": "text"}, "verbosity": "low"})
    assert chat(text={"verbosity": "low"})["verbosity"] == "low"


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"include": ["reasoning.encrypted_content"], "store": False}, {}),
        ({"user": "u", "prompt_cache_key": "k"}, {"user": "u", "prompt_cache_key": "k"}),
        ({"safety_identifier": "s", "service_tier": "auto"}, {"safety_identifier": "s", "service_tier": "auto"}),
        ({"metadata": {"a": "b"}, "store": True, "truncation": "disabled", "background": False}, {}),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, {}),
        ({"temperature": None, "tools": None, "text": None, "reasoning": None, "previous_response_id": None}, {}),
    ],
)
def test_fields_are_asked_under_chats_names(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    assert chat(**fields) == chat() | asked


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "whole conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation", "whole conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "'instructions'"),
        ({"background": True}, "background", "batch"),
        ({"truncation": "auto"}, "truncation", "send less"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]", "item itself"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0].type", "message, function_call"),
        ({"tools": [TOOL, {"type": "web_search", "filters": {}}]}, "tools[1].type", "as a function"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].type", "as a function"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type", "as a function"),
        ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type", "function"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]},
            "input[0].content[0].type",
            "text or images",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "x"}]}]},
            "input[0].content[0].file_id",
            "data URL",
        ),
    ],
)
def test_what_needs_a_memory_or_a_tool_of_ours_is_refused_with_advice(
    fields: dict[str, Any], param: str, says: str
) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert says in error.message


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": ""}, "model", "invalid_value"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": []}, "input", "invalid_value"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": [THOUGHT]}, "input", "invalid_value"),
        ({"input": ["hi"]}, "input[0]", "invalid_type"),
        ({"input": [{"content": "hi"}]}, "input[0].role", "missing_required_parameter"),
        ({"input": [SAID, {"role": "tool", "content": "hi"}]}, "input[1].role", "invalid_value"),
        ({"input": [{"role": "user", "content": []}]}, "input[0].content", "invalid_value"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input[0].content[0].text",
            "missing_required_parameter",
        ),
        ({"input": [CALL | {"name": ""}]}, "input[0].name", "invalid_value"),
        ({"input": [{"type": "function_call_output", "output": ""}]}, "input[0].call_id", "missing_required_parameter"),
        ({"input": [OUTPUT | {"output": [{"type": "input_text"}]}]}, "input[0].output[0].text", None),
        ({"input": [{"role": "user", "content": "hi", "priority": 1}]}, "input[0].priority", "unknown_parameter"),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name", "invalid_value"),
        ({"tools": [TOOL | {"priority": 1}]}, "tools[0].priority", "unknown_parameter"),
        ({"tool_choice": "sometimes"}, "tool_choice", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.name", "missing_required_parameter"),
        (
            {"text": {"format": {"type": "json_schema", "name": "n"}}},
            "text.format.schema",
            "missing_required_parameter",
        ),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "invalid_value"),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"seed": 1}, "seed", "unknown_parameter"),
    ],
)
def test_fields_are_refused_where_they_stand(fields: dict[str, Any], param: str, code: str | None) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert code in (None, error.code)


def test_an_input_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_responses(b'{"model": "m"}')
    assert caught.value.param == "input"


def test_a_setting_may_let_a_name_through_to_the_engine() -> None:
    allowed = frozenset({"top_k", "temperature"})
    fields = chat_fields(parse_responses(body(top_k=5, temperature=1), allowed=allowed))
    assert json.loads(msgspec.json.encode(fields))["top_k"] == 5
    with pytest.raises(InvalidRequest):
        parse_responses(body(temperature=9), allowed=allowed)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_responses(data)
    with pytest.raises(InvalidRequest):
        parse_responses(data, allowed=frozenset({"top_k"}))


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["type", "role", "content", "name", "text"]), x),
)
_TEXT = st.text(max_size=5)
_PART = st.sampled_from(["input_text", "output_text", "text"]).flatmap(
    lambda kind: st.builds(lambda text: {"type": kind, "text": text}, _TEXT)
)
_CONTENT = _TEXT | st.lists(_PART | st.just({"type": "input_image", "image_url": "u"}), min_size=1, max_size=3)
_ITEM = (
    st.builds(lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "system"]), _CONTENT)
    | st.sampled_from([SAID, CALL, OUTPUT, THOUGHT])
    | st.builds(lambda output: OUTPUT | {"output": output}, _CONTENT)
)


@given(st.lists(_ANYTHING | _ITEM, max_size=4), _ANYTHING)
def test_no_value_in_any_field_raises_anything_else(items: list[Any], value: Any) -> None:
    with suppress(InvalidRequest):
        parse_responses(body(input=items))
    for name in ("input", "tools", "tool_choice", "text", "reasoning", "include", "stream_options", "truncation"):
        with suppress(InvalidRequest):
            parse_responses(body(**{name: value}))


@given(st.lists(_ITEM, min_size=1, max_size=8).filter(lambda items: items != [THOUGHT] * len(items)))
def test_chat_takes_every_conversation_that_is_taken(items: list[Any]) -> None:
    """And nothing that was said or called gets lost or changes places."""
    asked = chat_fields(parse_responses(body(input=items)))
    parse_chat(msgspec.json.encode(asked))
    called = [call["id"] for message in asked["messages"] for call in message.get("tool_calls", ())]
    assert called == [item["call_id"] for item in items if item.get("type") == "function_call"]
    others = [message["role"] for message in asked["messages"] if message["role"] != "assistant"]
    told = [item.get("role", "tool") for item in items if item.get("type") in (None, "function_call_output")]
    assert others == told
