"""Deltas put together give what the engine would have said at once."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.scope import RequestScope
from gateway.streaming.collect import CollectSink


async def collected(*chunks: dict[str, Any], chat: bool = True) -> dict[str, Any]:
    request = RequestScope("id", "POST", "/", {}, 0, 0, _receive, _send, 0.0, form="chat" if chat else "completions")
    sink = CollectSink(request)
    await sink.take([msgspec.json.encode(chunk) for chunk in chunks])
    return sink.answer()


async def _receive() -> Any: ...


async def _send(message: Any) -> None: ...


def delta(index: int = 0, finish: str | None = None, logprobs: Any = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": fields, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 1, "choices": [choice]}


async def test_choices_are_kept_apart_and_in_order() -> None:
    answer = await collected(
        delta(1, content="b"), delta(0, content="a"), delta(1, content="B"), delta(0, finish="stop")
    )
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["a", "bB"]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", None]


async def test_tool_calls_grow_by_their_index() -> None:
    def call(index: int, **function: Any) -> dict[str, Any]:
        return {"index": index, "id": f"call{index}", "type": "function", "function": function}

    answer = await collected(
        delta(role="assistant", tool_calls=[call(0, name="f", arguments="")]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
        delta(tool_calls=[call(1, name="g", arguments="{}")]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
        delta(finish="tool_calls"),
    )
    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "f", "arguments": '{"a":1}'},
        {"name": "g", "arguments": "{}"},
    ]


async def test_reasoning_and_log_probabilities_are_joined() -> None:
    answer = await collected(
        delta(reasoning_content="th", logprobs={"content": [{"token": "a"}]}),
        delta(reasoning_content="ink", content="x", logprobs={"content": [{"token": "b"}]}),
        delta(finish="length"),
    )
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "x", "reasoning_content": "think"}
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


async def test_usage_and_the_engines_own_marks_are_kept() -> None:
    answer = await collected(
        delta(content="x") | {"system_fingerprint": "fp", "usage": None},
        {"id": "c", "choices": [], "usage": {"prompt_tokens": 1}},
    )
    assert answer["usage"] == {"prompt_tokens": 1}
    assert answer["system_fingerprint"] == "fp"
    assert answer["object"] == "chat.completion"
