"""Sampling fields of a request, from HTTP to the token: the model wants one thing, the request another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.native_engine.server.conftest import MODEL, Bench
from tests.native_engine.tiny_model import vocabulary

WORDS = vocabulary()
HELLO, WORLD = WORDS.index("hello"), WORDS.index("Ġworld")


async def said(bench: Bench, **fields: Any) -> str:
    answer = await bench.client.chat(**{"temperature": 0, "max_tokens": 4, **fields})
    assert answer.status == 200, answer.json
    return str(answer.json["choices"][0]["message"]["content"])


async def test_a_bias_moves_the_choice(bench: Bench) -> None:
    bench.say("hello world")
    assert await said(bench) == "hello world"
    assert await said(bench, logit_bias={str(HELLO): -51, str(WORLD): 1}) == " world" * 2
    assert await said(bench, logit_bias={str(WORLD): 60}) == " world" * 4


@pytest.mark.parametrize("words", [["hello"], ["world"], [" world"], ["no", "hello world"]])
async def test_bad_words_are_not_said(bench: Bench, words: list[str]) -> None:
    bench.say("hello world")
    text = await said(bench, bad_words=words)
    assert not any(word in text for word in words)


async def test_a_word_of_several_tokens_may_begin(bench: Bench) -> None:
    bench.say("hello world")
    assert (await said(bench, bad_words=["hello world"])).startswith("hello")


@pytest.mark.parametrize(
    "penalty", [{"presence_penalty": 2}, {"frequency_penalty": 2}, {"frequency_penalty": 0.5, "presence_penalty": 1.6}]
)
async def test_what_was_said_is_penalised(bench: Bench, penalty: dict[str, float]) -> None:
    """The bias leaves the model wanting its second choice only a little."""
    bench.say("hello" * 4)
    bias = {str(HELLO): -48.2, str(WORLD): 0.1}
    assert await said(bench, logit_bias=bias) == "hello" * 4
    assert (await said(bench, logit_bias=bias, **penalty)).startswith("hello world")


async def test_repetition_counts_the_prompt_too(bench: Bench) -> None:
    bench.say("hello")
    prompt = {"content": "hello", "logit_bias": {str(HELLO): -40}, "max_tokens": 1}
    assert await said(bench, **prompt, repetition_penalty=1.5) == "hello"
    assert await said(bench, **{**prompt, "logit_bias": {str(HELLO): -49, str(WORLD): 0.9}}) == "hello"
    assert (
        await said(bench, **{**prompt, "logit_bias": {str(HELLO): -49, str(WORLD): 0.9}}, repetition_penalty=1.5)
        == " world"
    )


async def test_min_tokens_holds_the_end_back(bench: Bench) -> None:
    bench.say("")
    answer = await bench.client.chat(temperature=0, min_tokens=2, max_tokens=2)
    assert answer.json["usage"]["completion_tokens"] == 2
    assert answer.json["choices"][0]["finish_reason"] == "length"


async def test_a_stop_id_ends_the_answer(bench: Bench) -> None:
    bench.say("hello world hello")
    answer = await bench.client.chat(temperature=0, stop_token_ids=[WORLD])
    assert answer.json["choices"][0]["message"]["content"] == "hello"
    assert answer.json["choices"][0]["finish_reason"] == "stop"


async def test_typical_sampling_is_taken(bench: Bench) -> None:
    bench.say("hello world")
    assert await said(bench, temperature=1, typical_p=0.5) == "hello world"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"typical_p": 0}, "typical_p"),
        ({"typical_p": 1.5}, "typical_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {str(len(WORDS)): 1}}, "logit_bias"),
        ({"logit_bias": {"hello": 1}}, "logit_bias"),
        ({"bad_words": [""]}, "bad_words"),
        ({"stop_token_ids": [len(WORDS)]}, "stop_token_ids"),
    ],
)
async def test_values_that_mean_nothing_are_refused_by_name(bench: Bench, fields: dict[str, Any], param: str) -> None:
    answer = await bench.client.chat(**fields)
    assert answer.status == 400
    assert answer.json["error"]["param"].startswith(param)


async def test_plain_completions_take_them_too(bench: Bench) -> None:
    bench.say("hello world")
    body = {"model": MODEL, "prompt": "x", "temperature": 0, "max_tokens": 1, "logit_bias": {str(HELLO): -51}}
    assert (await bench.client.post("/v1/completions", body)).json["choices"][0]["text"] != "hello"
