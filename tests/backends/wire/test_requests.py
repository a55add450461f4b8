"""Bad input, each with the right field and a message that says what to do."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.requests import ChatRequest, InvalidRequest, parse_chat, parse_completion, text_of

HELLO = [{"role": "user", "content": "hi"}]


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": HELLO, **fields}).encode()


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def refusal(body: bytes, **options: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(body, **options)
    return caught.value


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not valid JSON"),
        (b"hello", "not valid JSON"),
        (b'{"model": "m", "messages": NaN}', "not valid JSON"),
        (b'{"model": "m\xff"}', "not valid UTF-8"),
        (b'{"model": "\\ud800"}', "not valid JSON"),
        (b"[]", "expected object"),
        (b'"text"', "expected object"),
        (b'{"messages":' + b"[" * 100_000, "64 levels"),
        (
            chat(
                tools=[
                    {
                        "type": "function",
                        "function": {"name": "f", "parameters": json.loads('{"a":' * 70 + "1" + "}" * 70)},
                    }
                ]
            ),
            "64",
        ),
    ],
)
def test_bodies_that_are_no_request(body: bytes, says: str) -> None:
    error = refusal(body)
    assert says in error.message
    assert error.param is None


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": None}, "messages", "invalid_type"),
        ({"messages": "hi"}, "messages", "invalid_type"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [*HELLO, {"role": "wizard", "content": "hi"}]}, "messages[1].role", "invalid_value"),
        (user(None), "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "assistant"}]}, "messages[0].content", "invalid_type"),
        (user(5), "messages[0].content", "invalid_type"),
        (user([]), "messages[0].content", "invalid_value"),
        (user([{"type": "smell"}]), "messages[0].content[0].type", "invalid_value"),
        (user([{"type": "text"}]), "messages[0].content[0].text", "missing_required_parameter"),
        ({"messages": [{"role": "tool", "content": "5"}]}, "messages[0].tool_call_id", "missing_required_parameter"),
        ({"messages": [{"role": "user", "content": "hi", "colour": 1}]}, "messages[0].colour", "unknown_parameter"),
        ({"temperature": -0.1}, "temperature", "invalid_value"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"temperature": "0.5"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"top_p": 1.1}, "top_p", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 129}, "n", "invalid_value"),
        ({"n": 1.5}, "n", "invalid_type"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": -1}, "max_tokens", "invalid_value"),
        ({"max_tokens": "5"}, "max_tokens", "invalid_type"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "invalid_value"),
        ({"presence_penalty": 9}, "presence_penalty", "invalid_value"),
        ({"frequency_penalty": -3}, "frequency_penalty", "invalid_value"),
        ({"seed": 2**63}, "seed", "invalid_value"),
        ({"seed": -(2**63) - 1}, "seed", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
        ({"stop": [""]}, "stop[0]", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"logit_bias": {"word": 1}}, "logit_bias", "invalid_type"),
        ({"logit_bias": {"5": 101}}, "logit_bias[...]", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage", "unknown_parameter"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "invalid_value"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens", "invalid_value"),
        ({"metadata": {"k" * 65: "v"}}, "metadata", "invalid_value"),
        ({"add_generation_prompt": True, "continue_final_message": True}, "continue_final_message", "invalid_value"),
        ({"chat_template_kwargs": {"chat_template": "{x}"}}, "chat_template_kwargs.chat_template", "unknown_parameter"),
        ({"model": None}, "model", "invalid_type"),
        ({"model": ""}, "model", "invalid_value"),
    ],
)  # fmt: skip
def test_fields_out_of_shape_or_range_are_named(fields: dict[str, Any], param: str, code: str) -> None:
    error = refusal(chat(**fields))
    assert (error.param, error.code) == (param, code)
    assert param.removesuffix("[...]") in error.message


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_missing_fields_are_named(missing: str) -> None:
    body = json.loads(chat())
    del body[missing]
    error = refusal(json.dumps(body).encode())
    assert (error.param, error.code) == (missing, "missing_required_parameter")


@pytest.mark.parametrize("name", ["foo", "priority", "cache_salt", "request_id", "rid", "chat_template", "api_base"])
def test_unknown_and_steering_fields_are_refused_by_name(name: str) -> None:
    error = refusal(chat(**{name: "x"}))
    assert error.message == f"Unrecognized request argument supplied: {name}"
    assert error.param == name


def test_a_huge_unknown_name_is_not_sent_back_whole() -> None:
    assert len(refusal(chat(**{"x" * 100_000: 1})).message) < 200


def test_a_models_setting_lets_names_through_but_known_ones_are_still_checked() -> None:
    allowed = frozenset({"guided_regex", "temperature"})
    assert parse_chat(chat(guided_regex="a+", temperature=1), allowed=allowed).temperature == 1
    assert refusal(chat(guided_regex="a+", temperature=9), allowed=allowed).param == "temperature"
    assert refusal(chat(guided_regex="a+", other=1), allowed=allowed).param == "other"


def test_null_means_unset() -> None:
    names = set(ChatRequest.__struct_fields__) - {"model", "messages"}
    assert parse_chat(chat(**dict.fromkeys(names))) == parse_chat(chat())


def test_the_newer_limit_wins() -> None:
    assert parse_chat(chat(max_tokens=6, max_completion_tokens=3)).output_limit == 3
    assert parse_chat(chat(max_tokens=6)).output_limit == 6
    assert parse_chat(chat()).output_limit is None


def test_stops_are_a_tuple_whatever_was_sent() -> None:
    assert parse_chat(chat(stop="a")).stops == ("a",)
    assert parse_chat(chat(stop=["a", "b"])).stops == ("a", "b")
    assert parse_chat(chat()).stops == ()


def test_usage_is_wanted_only_where_asked() -> None:
    assert parse_chat(chat(stream=True, stream_options={"include_usage": True})).includes_usage
    assert not parse_chat(chat(stream=True)).includes_usage


def test_text_parts_are_joined_and_images_refused() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = parse_chat(chat(messages=[{"role": "user", "content": parts}]))
    assert text_of(request.messages[0]) == "a\nb"
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    request = parse_chat(chat(messages=[{"role": "user", "content": [*parts, image]}]))
    with pytest.raises(InvalidRequest, match="image_url") as caught:
        text_of(request.messages[0], "messages[0]")
    assert caught.value.param == "messages[0].content[2].type"


def test_a_tool_conversation_is_taken_back_as_it_was_given() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "refusal": None,
        "annotations": [],
        "audio": None,
    }
    request = parse_chat(chat(messages=[*HELLO, answer, {"role": "tool", "tool_call_id": "c1", "content": "5"}]))
    assert text_of(request.messages[1]) == ""


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("hi", ["hi"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])],
)
def test_prompts_in_all_four_forms(prompt: Any, prompts: Any) -> None:
    assert parse_completion(json.dumps({"model": "m", "prompt": prompt}).encode()).prompts == prompts


@pytest.mark.parametrize("prompt", [None, 5, [], ["a", 1], [1, [2]], [[]], [-1], [1.5], [True], {"a": 1}])
def test_prompts_in_no_form_are_refused(prompt: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_completion(json.dumps({"model": "m", "prompt": prompt}).encode())
    assert (caught.value.param or "").startswith("prompt")


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_chat(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_no_value_in_any_field_raises_anything_else(value: Any) -> None:
    for name in ("messages", "temperature", "stop", "logit_bias", "tools", "metadata", "stream_options", "tool_choice"):
        with suppress(InvalidRequest):
            parse_chat(chat(**{name: value}))


def test_parsing_an_ordinary_body_is_quick() -> None:
    body = chat(temperature=0.7, max_tokens=64, stream=True, stream_options={"include_usage": True}, stop=["a"])
    best = min(_timed(lambda: parse_chat(body)) for _ in range(2000))
    assert best < 100e-6  # about 5 us on an idle core; the bound leaves room for a busy one


def _timed(action: Any) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
