"""Responses made of chat chunks: every event in the official client's own types, in the official order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from backends.wire import sse
from gateway.errors import EngineBroken, EngineSilent, QueueFull
from gateway.responses.answer import Answer
from gateway.responses.framing import EventFraming, whole_response
from gateway.responses.head import head
from gateway.responses.requests import parse_responses
from gateway.scope import RequestScope
from gateway.streaming.collect import CollectSink
from tests.contracts.recorded.recordings import exchange

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
Event = dict[str, Any]


def answer(**fields: Any) -> Answer:
    parsed = parse_responses(json.dumps({"model": "m", "input": "hi", **fields}).encode())
    return Answer("0a", head(parsed, "0a", 1))


def chunk(finish: str | None = None, logprobs: Any = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
    return json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()


def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments} | more.pop("function", {}), **more}


USAGE = json.dumps(
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }
).encode()
DONE = b"[DONE]"


def told(written: bytes) -> list[Event]:
    """The events as a client reads them, each checked against the official client's type for it."""
    events = []
    for one in sse.EventParser().feed(written):
        data = json.loads(one.data)
        assert one.name == data["type"]
        EVENT.validate_python(data, strict=False)
        events.append(data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def streamed(*chunks: bytes, **fields: Any) -> list[Event]:
    framing = EventFraming(answer(**fields))
    return told(b"".join(framing.events([one]) for one in chunks) + framing.end())


def types(events: Sequence[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


async def collected(*chunks: bytes, **fields: Any) -> dict[str, Any]:
    async def nothing(*_: Any) -> Any: ...

    sink = CollectSink(RequestScope("0a", "POST", "/", {}, 0, 0, nothing, nothing, 0.0))
    await sink.take(list(chunks))
    whole = whole_response(answer(**fields), sink.answer())
    Response.model_validate(whole)
    return whole


def test_text_is_told_in_the_official_order() -> None:
    events = streamed(
        chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk("stop"), USAGE
    )
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    assert response["output"] == [
        {"id": "msg_0a_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    ]
    assert response["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 10,
    }
    assert (response["id"], response["status"], response["store"]) == ("resp_0a", "completed", False)


def test_thoughts_words_and_calls_are_items_of_their_own() -> None:
    events = streamed(
        chunk(reasoning_content="hm"),
        chunk(content="Let me look."),
        chunk(tool_calls=[call(0, "", id="c1", function={"name": "f"})]),
        chunk(tool_calls=[call(0, '{"a":')]),
        chunk(tool_calls=[call(0, "1}"), call(1, "{}", id="c2", function={"name": "g"})]),
        chunk("tool_calls"),
    )
    assert types(events) == [
        "created",
        "in_progress",
        *("output_item.added", "content_part.added", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in output[2:]] == [
        ("c1", "f", '{"a":1}'),
        ("c2", "g", "{}"),
    ]


def test_arguments_of_two_calls_may_come_by_turns() -> None:
    events = streamed(
        chunk(tool_calls=[call(0, "{", id="c1", function={"name": "f"})]),
        chunk(tool_calls=[call(1, "[", id="c2", function={"name": "g"})]),
        chunk(tool_calls=[call(0, "}")]),
        chunk(tool_calls=[call(1, "]")]),
    )
    assert [item["arguments"] for item in events[-1]["response"]["output"]] == ["{}", "[]"]


def test_a_call_without_an_id_gets_one_to_be_answered_by() -> None:
    events = streamed(chunk(tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]))
    assert events[-1]["response"]["output"][0]["call_id"] == "call_0a_0"


def test_a_refusal_is_a_part_of_the_message() -> None:
    events = streamed(chunk(content="Well."), chunk(refusal="No"), chunk(refusal="."), chunk("stop"))
    assert types(events)[4:-2] == [
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
    ]
    assert events[-1]["response"]["output"][0]["content"][1] == {"type": "refusal", "refusal": "No."}


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_short_is_incomplete(finish: str, reason: str) -> None:
    last = streamed(chunk(content="Hel"), chunk(finish))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": reason}
    assert (last["response"]["status"], last["response"]["output"][0]["status"]) == ("incomplete", "incomplete")


def test_an_empty_answer_is_an_empty_message() -> None:
    events = streamed(chunk(role="assistant", content=""), chunk("stop"))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == ""
    assert "response.output_text.done" in [event["type"] for event in events]


def test_log_probabilities_come_with_their_text_and_none_is_lost() -> None:
    def token(text: str) -> dict[str, Any]:
        return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "x", "logprob": -1.0}]}

    events = streamed(
        chunk(content="Hi", logprobs={"content": [token("Hi")]}),
        chunk(content="", logprobs={"content": [token("é")]}),  # a token that makes no character yet
        chunk(content="é", logprobs={"content": [token("e")]}),
        include=["message.output_text.logprobs"],
    )
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert [[one["token"] for one in told] for told in deltas] == [["Hi"], ["é", "e"]]
    kept = events[-1]["response"]["output"][0]["content"][0]["logprobs"]
    assert [one["token"] for one in kept] == ["Hi", "é", "e"]
    assert kept[1]["bytes"] == list("é".encode())
    assert kept[0]["top_logprobs"] == [{"token": "x", "logprob": -1.0, "bytes": [120]}]


def test_the_response_says_what_was_asked() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}, "strict": True}
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    response = streamed(
        chunk(content="x"),
        instructions="be",
        tools=[tool],
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        text={"format": schema, "verbosity": "low"},
        reasoning={"effort": "low"},
        metadata={"a": "b"},
        temperature=0.5,
        max_output_tokens=9,
        store=True,
    )[-1]["response"]
    assert response["instructions"] == "be"
    assert response["tools"] == [tool | {"description": None}]
    assert response["tool_choice"] == {"type": "function", "name": "f"}
    assert response["parallel_tool_calls"] is False
    assert response["text"] == {"format": schema, "verbosity": "low"}
    assert response["reasoning"]["effort"] == "low"
    assert (response["metadata"], response["temperature"], response["max_output_tokens"]) == ({"a": "b"}, 0.5, 9)
    assert response["store"] is False


def test_a_count_that_was_told_early_is_kept() -> None:
    response = streamed(chunk(content="x"), USAGE, chunk("stop"))[-1]["response"]
    assert response["usage"]["total_tokens"] == 10


def test_other_choices_are_not_ours() -> None:
    other = json.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]}).encode()
    assert streamed(chunk(content="yes"), other)[-1]["response"]["output"][0]["content"][0]["text"] == "yes"


def test_a_failure_is_told_and_what_was_said_stays() -> None:
    framing = EventFraming(answer())
    events = told(framing.events([chunk(content="Hel"), USAGE]) + framing.error(EngineSilent("No token came.")))
    assert types(events)[-5:] == ["output_text.done", "content_part.done", "output_item.done", "error", "failed"]
    assert (events[-2]["code"], events[-2]["message"]) == ("engine_timeout", "No token came.")
    response = events[-1]["response"]
    assert response["error"] == {"code": "server_error", "message": "No token came."}
    assert (response["status"], response["output"][0]["status"]) == ("failed", "incomplete")
    assert response["usage"]["output_tokens"] == 3


def test_a_failure_before_the_first_word_has_a_beginning_too() -> None:
    events = told(EventFraming(answer()).error(QueueFull("Too many wait.")))
    assert types(events) == ["created", "in_progress", "error", "failed"]
    assert events[-1]["response"]["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("event", [b"{", b"[]", b'"x"', b'{"choices": 5}', b'{"choices": [{"delta": "x"}]}', b"\xff"])
def test_what_is_no_answer_is_an_error_and_nothing_before_it_is_half_told(event: bytes) -> None:
    framing = EventFraming(answer())
    with pytest.raises(EngineBroken):
        framing.events([chunk(content="Hel"), event])
    assert types(told(framing.error(EngineBroken("x"))))[:2] == ["created", "in_progress"]


def test_done_ends_the_events_as_the_end_does() -> None:
    framing = EventFraming(answer())
    events = told(framing.events([chunk(content="x"), chunk("stop"), DONE]))
    assert types(events)[-1] == "completed"
    assert events == streamed(chunk(content="x"), chunk("stop"))


_DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, st.text(max_size=4)),
    st.builds(lambda text: {"reasoning_content": text}, st.text(max_size=4)),
    st.builds(lambda text: {"refusal": text}, st.text(max_size=4)),
    st.builds(
        lambda index, text: {"tool_calls": [call(index, text, id=f"c{index}", function={"name": "f"})]},
        st.integers(0, 2),
        st.text(max_size=4),
    ),
)


@settings(deadline=None)  # the first one builds the types of every event
@given(st.lists(_DELTAS, max_size=12), st.sampled_from(["stop", "length", "tool_calls"]))
def test_whatever_comes_the_events_add_up_to_the_response(deltas: list[Any], finish: str) -> None:
    events = streamed(*(chunk(**delta) for delta in deltas), chunk(finish))
    response = events[-1]["response"]
    Response.model_validate(response)
    assert types(events)[:2] == ["created", "in_progress"]
    done = {event["output_index"]: event["item"] for event in events if event["type"] == "response.output_item.done"}
    assert [done[index] for index in sorted(done)] == response["output"]
    for index, item in enumerate(response["output"]):
        assert next(e["type"] for e in events if e.get("output_index") == index) == "response.output_item.added"
        said = "".join(e["delta"] for e in events if e.get("output_index") == index and "delta" in e)
        parts = [part.get("text", part.get("refusal")) for part in item.get("content", ())]
        assert said == "".join(parts) + item.get("arguments", "")
    for kind in ("content", "reasoning_content", "refusal"):
        name = {"content": "output_text", "reasoning_content": "reasoning_text"}.get(kind, kind)
        parts = [part for item in response["output"] for part in item.get("content", ()) if part["type"] == name]
        whole = "".join(part.get("text", part.get("refusal")) for part in parts)
        assert whole == "".join(delta.get(kind, "") for delta in deltas)


async def test_a_whole_answer_is_the_response_that_the_stream_ends_with() -> None:
    chunks = (
        chunk(reasoning_content="hm"),
        chunk(content="Hel", logprobs={"content": [{"token": "Hel", "logprob": -1.0}]}),
        chunk(content="lo"),
        chunk(tool_calls=[call(0, "{", id="c1", function={"name": "f"})]),
        chunk(tool_calls=[call(0, "}")]),
        chunk("tool_calls"),
        USAGE,
    )
    assert await collected(*chunks) == streamed(*chunks)[-1]["response"]


async def test_a_whole_answer_may_be_cut_short_or_empty() -> None:
    assert (await collected(chunk(content="x"), chunk("length")))["status"] == "incomplete"
    assert (await collected(chunk("stop")))["output"][0]["content"][0]["text"] == ""


def test_a_whole_that_is_no_answer_is_an_error() -> None:
    with pytest.raises(EngineBroken):
        whole_response(answer(), {"choices": [{"message": {"content": 5}}]})


@pytest.mark.parametrize("engine", ["llamacpp", "ollama", "sglang", "vllm"])
async def test_what_real_engines_said_makes_a_response(engine: str) -> None:
    said = [one.data for one in sse.EventParser().feed(exchange(engine, "04-chat-stream-usage").body)]
    framing = EventFraming(answer())
    last = told(framing.events(said))[-1]
    text = "".join(json.loads(one)["choices"][0]["delta"].get("content") or "" for one in said[:-2])
    assert last["response"]["output"][0]["content"][0]["text"] == text
    assert last["response"]["usage"]["output_tokens"] > 0
    assert await collected(*said) == last["response"]
