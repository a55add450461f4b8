"""Ollama's lines come out as official events, however they were cut, and nothing that is no end passes for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Broken
from backends.ollama import answers
from backends.ollama.answers import CHAT, COMPLETION, Answer
from backends.wire import sse
from tests.contracts.recorded.recordings import exchange


def line(**fields: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "created_at": "2026-08-21T10:00:00.1Z", **fields}) + b"\n"


def said(**message: Any) -> bytes:
    return line(message={"role": "assistant", "content": "", **message}, done=False)


def ended(reason: str = "stop", **fields: Any) -> bytes:
    counts = {"prompt_eval_count": 12, "eval_count": 2, "total_duration": 812000000}
    return line(message={"role": "assistant", "content": ""}, done=True, done_reason=reason, **{**counts, **fields})


def read(*pieces: bytes, form: Any = CHAT, judge: answers.Judge = lambda prompt, output: None) -> list[Any]:
    """The events, decoded, `"[DONE]"` standing for itself."""
    answer = Answer(form, "req_1", "m", judge)
    events = b"".join([*map(answer.feed, pieces), answer.end()])
    return [event.data.decode() if event.is_done else msgspec.json.decode(event.data) for event in parsed(events)]


def parsed(events: bytes) -> list[sse.Event]:
    return sse.EventParser().feed(events)


def deltas(events: list[Any]) -> list[Any]:
    return [event["choices"][0]["delta"] for event in events if event != "[DONE]" and event.get("choices")]


def test_a_chat_begins_with_the_role_and_ends_with_reason_usage_and_done() -> None:
    first, second, end, usage, done = read(said(content="Hel"), said(content="lo"), ended())
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "Hel"}
    assert (first["id"], first["object"], first["model"]) == ("chatcmpl-req_1", "chat.completion.chunk", "m")
    assert second["choices"][0] == {"index": 0, "delta": {"content": "lo"}, "logprobs": None, "finish_reason": None}
    assert end["choices"][0]["delta"] == {}
    assert end["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert (usage["usage"]["prompt_tokens"], usage["usage"]["completion_tokens"]) == (12, 2)
    assert done == "[DONE]"
    assert first["id"] == second["id"] == end["id"] == usage["id"]


def test_a_completion_has_text() -> None:
    pieces = [
        line(response="One", done=False),
        line(response="", done=True, done_reason="length", prompt_eval_count=4, eval_count=1),
    ]
    first, end, usage, _ = read(*pieces, form=COMPLETION)
    assert (first["id"], first["object"], first["choices"][0]["text"]) == ("cmpl-req_1", "text_completion", "One")
    assert (end["choices"][0]["text"], end["choices"][0]["finish_reason"]) == ("", "length")
    assert (usage["object"], usage["usage"]["completion_tokens"]) == ("text_completion", 1)


def test_thinking_is_reasoning() -> None:
    events = read(said(thinking="Hm."), said(content="Yes", thinking=""), ended())
    assert deltas(events)[:2] == [{"role": "assistant", "reasoning_content": "Hm."}, {"content": "Yes"}]


def test_tool_calls_get_an_id_and_their_arguments_as_text() -> None:
    call = {"function": {"name": "get_w", "arguments": {"city": "Bern", "dépôt": 1}}}
    with_id = {"id": "call_x", "function": {"name": "get_t", "arguments": {}}}
    events = read(said(tool_calls=[call]), said(tool_calls=[with_id, call]), ended())
    calls = [call for delta in deltas(events) for call in delta.get("tool_calls", ())]
    assert [call["index"] for call in calls] == [0, 1, 2]
    assert msgspec.json.decode(calls[0]["function"]["arguments"]) == {"city": "Bern", "dépôt": 1}
    assert calls[1]["id"] == "call_x"
    assert len({call["id"] for call in calls}) == 3
    assert {call["type"] for call in calls} == {"function"}
    assert events[-3]["choices"][0]["finish_reason"] == "tool_calls"


def test_tool_calls_cut_by_the_limit_are_not_told_as_whole() -> None:
    call = {"function": {"name": "get_w", "arguments": {}}}
    assert read(said(tool_calls=[call]), ended("length"))[-3]["choices"][0]["finish_reason"] == "length"


def test_what_the_last_line_says_comes_before_the_end() -> None:
    text, end, *_ = read(line(message={"content": "all at once"}, done=True, done_reason="length", eval_count=48))
    assert text["choices"][0]["delta"]["content"] == "all at once"
    assert end["choices"][0]["finish_reason"] == "length"


def test_older_versions_leave_out_the_reason_and_a_prompt_that_they_remember() -> None:
    end, done = read(line(message={"content": ""}, done=True, eval_count=2))
    assert end["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("llama runner process has terminated", 500),
        ("server busy, please try again.  maximum pending requests exceeded", 503),
        ("the input length exceeds the context length", 400),
    ],
)
def test_an_error_in_mid_stream_is_an_error_event_and_no_end(message: str, status: int) -> None:
    text, failed = read(said(content="Hel"), line(error=message), said(content="never"), ended())
    assert text["choices"][0]["delta"]["content"] == "Hel"
    assert (failed["error"]["message"], failed["error"]["code"]) == (message, status)


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_loading_a_model_is_no_answer(reason: str) -> None:
    (failed,) = read(ended(reason))
    assert failed["error"]["code"] == 500


def test_an_answer_that_is_judged_is_counted_and_ends_with_an_error() -> None:
    asked = []

    def judge(prompt: int, output: int) -> str:
        asked.append((prompt, output))
        return "The prompt was cut to the model's context length."

    _, usage, failed = read(said(content="Hel"), ended(), judge=judge)
    assert asked == [(12, 2)]
    assert usage["usage"]["prompt_tokens"] == 12
    assert (failed["error"]["code"], failed["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (said(content="Hel"),),
        (said(content="Hel"), ended()[:-20]),
        (b"<html>\n",),
        (b'["no", "object"]\n',),
        (b'{"message":{"content":"\xff"},"done":false}\n', ended()),
    ],
    ids=["nothing", "no end", "half a line", "garbage", "no object", "no UTF-8"],
)
def test_what_stops_short_or_is_no_line_is_broken(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(Broken):
        read(*pieces)


def test_a_last_line_without_a_newline_is_read() -> None:
    assert read(said(content="Hel"), ended()[:-1])[-1] == "[DONE]"


def test_blank_lines_and_what_follows_the_end_are_passed_over() -> None:
    assert read(b"\n\r\n", said(content="a"), b"\n", ended(), ended(), b"garbage\n") == read(said(content="a"), ended())


def test_a_line_without_an_end_is_broken_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_LINE_BYTES", 1000)
    answer = Answer(CHAT, "req_1", "m", lambda prompt, output: None)
    answer.feed(b"x" * 600)
    with pytest.raises(Broken):
        answer.feed(b"x" * 600)


@given(st.data())
def test_any_cutting_of_the_bytes_gives_the_same_events(data: st.DataObject) -> None:
    recorded = data.draw(st.sampled_from(["40-api-chat-japanese", "40-api-chat-stream", "44-api-chat-tools-stream"]))
    whole = exchange("ollama", recorded).body
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=20).map(sorted))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert without_time(read(*pieces)) == without_time(read(whole))


def without_time(events: list[Any]) -> list[Any]:
    return [event if event == "[DONE]" else event | {"created": 0} for event in events]
