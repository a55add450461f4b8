"""Official requests in Ollama's words: every field that is taken arrives under its own name, and nothing is made up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backends.ollama import asking
from backends.ollama.asking import Terms
from backends.wire.embeddings import parse_embeddings
from backends.wire.errors import InvalidRequest
from backends.wire.requests import parse_chat, parse_completion

USER = {"role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "function": {"name": "get_w", "parameters": {"type": "object"}}}]
NONE = Terms()
PIXEL = "iVBORw0KGgo="


def asked(messages: list[dict[str, Any]] | None = None, terms: Terms = NONE, **fields: Any) -> dict[str, Any]:
    body = msgspec.json.encode({"model": "m", "messages": messages or [USER], **fields})
    tools = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get("tools")
    return dict(msgspec.json.decode(asking.chat(parse_chat(body), tools, terms)))


def completed(terms: Terms = NONE, **fields: Any) -> dict[str, Any]:
    return dict(
        msgspec.json.decode(asking.completion(parse_completion(msgspec.json.encode({"model": "m"} | fields)), terms))
    )


def test_what_is_not_said_is_left_to_the_models_own_file() -> None:
    assert asked(temperature=None) == {
        "model": "m",
        "messages": [USER],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {},
    }


def test_sampling_goes_by_ollamas_names() -> None:
    named: dict[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
    }
    options = asked(**named, top_k=40, seed=7, stop="three", repetition_penalty=1.1)["options"]
    assert options == named | {"top_k": 40, "seed": 7, "stop": ["three"], "repeat_penalty": 1.1}


def test_the_smaller_of_two_limits_counts_and_none_is_longer_than_the_context() -> None:
    assert asked(max_tokens=6, max_completion_tokens=3)["options"]["num_predict"] == 3
    assert asked(max_tokens=3, max_completion_tokens=6)["options"]["num_predict"] == 3
    assert asked(terms=Terms(context=2048), max_tokens=100_000)["options"]["num_predict"] == 2048
    assert asked(terms=Terms(context=2048))["options"]["num_predict"] == 2048


def test_no_top_k_is_zero_and_a_seed_is_one_that_ollama_takes() -> None:
    assert asked(top_k=-1)["options"]["top_k"] == 0
    for seed in (-1, 2**63 - 1, -(2**63)):
        assert 0 <= asked(seed=seed)["options"]["seed"] < 2**31
    assert asked(seed=0)["options"]["seed"] == 0


def test_the_context_and_the_time_in_memory_are_always_sent() -> None:
    terms = Terms(num_ctx=8192, keep_alive="30m")
    for sent in (
        asked(terms=terms),
        completed(terms, prompt="a"),
        msgspec.json.decode(asking.embedding(parse_embeddings(b'{"model":"m","input":"a"}'), terms)),
    ):
        assert (sent["options"]["num_ctx"], sent["keep_alive"]) == (8192, "30m")


@pytest.mark.parametrize(("said", "sent"), [("-1", -1), ("300", 300), ("1h30m", "1h30m")])
def test_a_time_without_a_unit_is_a_number(said: str, sent: object) -> None:
    assert asked(terms=Terms(keep_alive=said))["keep_alive"] == sent


def test_a_developer_is_a_system_and_parts_of_text_are_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    sent = asked([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}])
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one\ntwo"}]


def test_images_travel_beside_the_text() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    bare = {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"}
    (sent,) = asked([{"role": "user", "content": [{"type": "text", "text": "What?"}, image, bare]}])["messages"]
    assert sent == {"role": "user", "content": "What?", "images": [PIXEL, PIXEL]}


def test_calls_and_results_of_tools_keep_together() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_w", "arguments": '{"city":"Bern","n":1.0}'}}
    _, assistant, result = asked(
        [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ]
    )["messages"]
    assert assistant["content"] == ""
    assert assistant["tool_calls"] == [
        {"id": "call_1", "function": {"name": "get_w", "arguments": {"city": "Bern", "n": 1}}}
    ]
    assert result == {"role": "tool", "content": "sunny", "tool_call_id": "call_1", "tool_name": "get_w"}


@pytest.mark.parametrize("arguments", ["{", "[1]", "Bern"])
def test_arguments_that_are_no_object_are_refused_by_place(arguments: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(InvalidRequest) as caught:
        asked([USER, {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert caught.value.param == "messages[1].tool_calls[0].function.arguments"


def test_tools_are_sent_as_they_came_and_not_at_all_where_none_may_be_called() -> None:
    assert asked(tools=TOOLS, tool_choice="auto")["tools"] == TOOLS
    assert "tools" not in asked(tools=TOOLS, tool_choice="none")
    assert "tools" not in asked(tools=[])


def test_an_earlier_reasoning_is_given_back_as_thinking() -> None:
    _, answer, _ = asked([USER, {"role": "assistant", "content": "4", "reasoning_content": "2+2"}, USER])["messages"]
    assert answer["thinking"] == "2+2"


@pytest.mark.parametrize(
    ("effort", "think", "level"), [("none", False, False), ("minimal", True, "low"), ("high", True, "high")]
)
def test_effort_is_a_yes_or_no_but_for_models_that_think_by_level(effort: str, think: object, level: object) -> None:
    assert asked(reasoning_effort=effort)["think"] is think
    assert asked(terms=Terms(thinks_by_level=True), reasoning_effort=effort)["think"] == level


def test_formats_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    named = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    assert asked(response_format=named)["format"] == schema
    assert asked(response_format={"type": "json_object"})["format"] == "json"
    assert "format" not in asked(response_format={"type": "text"})


def test_a_completion_is_raw() -> None:
    sent = completed(prompt=["One, two,"], max_tokens=8)
    assert sent == {
        "model": "m",
        "prompt": "One, two,",
        "raw": True,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 8},
    }


def test_embeddings_are_never_cut() -> None:
    request = parse_embeddings(b'{"model":"m","input":["a","b"],"dimensions":64}')
    sent = msgspec.json.decode(asking.embedding(request, Terms()))
    assert sent == {"model": "m", "input": ["a", "b"], "truncate": False, "dimensions": 64, "options": {}}
