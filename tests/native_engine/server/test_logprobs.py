from __future__ import annotations

import math
from typing import Any

import pytest

from tests.native_engine.server.conftest import MODEL, Answer, Bench
from tests.native_engine.tiny_model import vocabulary

CERTAIN = -math.log1p((len(vocabulary()) - 1) * math.exp(-50))


async def complete(bench: Bench, **fields: Any) -> Answer:
    return await bench.client.post("/v1/completions", {"model": MODEL, "prompt": "x", **fields})


def chat_entries(answer: Answer) -> list[Any]:
    """Of all chunks, in order."""
    choices = [event["choices"][0] for event in answer.events if event != "[DONE]"]
    return [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]


async def test_each_token_of_the_text_has_its_own_and_the_likeliest(bench: Bench) -> None:
    bench.say("hello world")
    choice = (await bench.client.chat(logprobs=True, top_logprobs=3)).json["choices"][0]
    assert choice["logprobs"]["refusal"] is None
    entries = choice["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == ["hello", " world"]  # the end of the turn is no text
    for entry in entries:
        assert bytes(entry["bytes"]).decode() == entry["token"]
        assert entry["logprob"] == pytest.approx(CERTAIN)
        assert len(entry["top_logprobs"]) == 3
        assert entry["top_logprobs"][0] == {name: entry[name] for name in ("token", "logprob", "bytes")}
        assert entry["top_logprobs"][1]["logprob"] == pytest.approx(-50)


async def test_without_a_number_of_alternatives_there_are_none(bench: Bench) -> None:
    bench.say("hello")
    (entry,) = (await bench.client.chat(logprobs=True)).json["choices"][0]["logprobs"]["content"]
    assert entry["top_logprobs"] == []


@pytest.mark.parametrize("text", ["hello world", "🎌 日本語", "한 hello"])
async def test_a_stream_tells_the_same_as_the_whole_and_each_with_its_text(bench: Bench, text: str) -> None:
    bench.say(text)
    whole = (await bench.client.chat(logprobs=True, top_logprobs=2)).json["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in whole).decode() == text
    streamed = await bench.client.chat(logprobs=True, top_logprobs=2, stream=True)
    assert chat_entries(streamed) == whole
    assert "".join(streamed.deltas) == text


@pytest.mark.parametrize("limit", [2, 9])  # 2: the token that completes the string is the last one allowed
async def test_tokens_of_a_stop_string_are_not_told(bench: Bench, limit: int) -> None:
    bench.say("hello world hello")
    for stream in (False, True):
        answer = await bench.client.chat(logprobs=True, stop=" world", stream=stream, max_tokens=limit)
        entries = chat_entries(answer) if stream else answer.json["choices"][0]["logprobs"]["content"]
        assert [entry["token"] for entry in entries] == ["hello"]


async def test_tokens_that_only_looked_like_a_stop_string_are(bench: Bench) -> None:
    bench.say("hello world")
    answer = await bench.client.chat(logprobs=True, stop=" world!", stream=True)
    assert [entry["token"] for entry in chat_entries(answer)] == ["hello", " world"]


async def test_plain_completions_have_four_arrays(bench: Bench) -> None:
    bench.say("hello world")
    told = (await complete(bench, logprobs=1)).json["choices"][0]["logprobs"]
    assert told["tokens"] == ["hello", " world"]
    assert told["text_offset"] == [0, 5]
    assert told["token_logprobs"] == pytest.approx([CERTAIN, CERTAIN])
    assert [list(alternatives) for alternatives in told["top_logprobs"]] == [["hello"], [" world"]]


async def test_offsets_go_on_through_a_stream(bench: Bench) -> None:
    bench.say("hello world")
    answer = await complete(bench, logprobs=0, stream=True)
    told = [event["choices"][0]["logprobs"] for event in answer.events if event != "[DONE]"]
    assert [(each["tokens"], each["text_offset"]) for each in told if each] == [(["hello"], [0]), ([" world"], [5])]


async def test_parts_of_a_character_have_names_of_their_own(bench: Bench) -> None:
    bench.say("日")
    told = (await complete(bench, logprobs=0)).json["choices"][0]["logprobs"]
    assert told["tokens"] == ["bytes:\\xe6", "bytes:\\x97", "bytes:\\xa5"]
    assert told["text_offset"] == [0, 0, 0]


async def test_who_does_not_ask_is_told_nothing(bench: Bench) -> None:
    bench.say("hello")
    assert (await bench.client.chat()).json["choices"][0]["logprobs"] is None
    assert (await complete(bench)).json["choices"][0]["logprobs"] is None
