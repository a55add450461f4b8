"""Responses have the fields that the official SDKs require."""

from __future__ import annotations

import json

from backends.wire import responses as r

HEAD = r.Head("chatcmpl-1", 1_700_000_000, "m")
USAGE = r.Usage(5, 2, 4)


def test_a_chat_stream_opens_with_the_role_and_ends_with_the_reason() -> None:
    first = json.loads(r.chat_chunk(HEAD, role="assistant", content=""))
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    last = json.loads(r.chat_chunk(HEAD, 1, finish_reason="stop"))
    assert last["choices"] == [{"index": 1, "delta": {}, "logprobs": None, "finish_reason": "stop"}]


def test_a_usage_chunk_has_no_choices() -> None:
    for made in (r.chat_usage_chunk(HEAD, USAGE), r.completion_usage_chunk(HEAD, USAGE)):
        chunk = json.loads(made)
        assert chunk["choices"] == []
        assert chunk["usage"]["total_tokens"] == 7
        assert chunk["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}


def test_a_whole_chat_answer() -> None:
    made = json.loads(r.chat_completion(HEAD, [r.Choice("hi 👋", "stop"), r.Choice("yo", "length")], USAGE))
    assert made["object"] == "chat.completion"
    assert [choice["index"] for choice in made["choices"]] == [0, 1]
    assert made["choices"][0]["message"] == {"role": "assistant", "content": "hi 👋", "refusal": None}
    assert made["usage"]["completion_tokens"] == 2


def test_completions() -> None:
    made = json.loads(r.completion(HEAD, [r.Choice("hi", "stop")], USAGE))
    assert made["object"] == "text_completion"
    assert made["choices"][0]["text"] == "hi"
    chunk = json.loads(r.completion_chunk(HEAD, text="h"))
    assert chunk["choices"] == [{"index": 0, "text": "h", "logprobs": None, "finish_reason": None}]


def test_a_model_list_names_the_context_only_where_it_is_known() -> None:
    made = json.loads(r.model_list([r.ModelEntry("a", 1, "sekisho", 2048), r.ModelEntry("b", 1, "x")]))
    assert made["object"] == "list"
    assert made["data"][0] == {"id": "a", "object": "model", "created": 1, "owned_by": "sekisho", "max_model_len": 2048}
    assert "max_model_len" not in made["data"][1]
