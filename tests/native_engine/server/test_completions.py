from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.native_engine.server.conftest import CONTEXT, MODEL, Answer, Bench


async def complete(bench: Bench, prompt: Any, **fields: Any) -> Answer:
    return await bench.client.post("/v1/completions", {"model": MODEL, "prompt": prompt, **fields})


async def test_a_whole_answer_has_the_official_shape(bench: Bench) -> None:
    bench.say("hello")
    made = (await complete(bench, "hello world")).json
    assert made["object"] == "text_completion"
    assert made["id"].startswith("cmpl-")
    assert made["choices"] == [{"index": 0, "text": "hello", "logprobs": None, "finish_reason": "stop"}]
    assert made["usage"]["prompt_tokens"] == 2


async def test_text_and_token_ids_alone_or_in_lists_are_prompts(bench: Bench) -> None:
    bench.say("hello")
    ids = bench.service.tokenizer.encode("hello world")
    for prompt, number, tokens in (("hello world", 1, 2), (ids, 1, 2), (["hello world"] * 2, 2, 4), ([ids, ids], 2, 4)):
        made = (await complete(bench, prompt)).json
        assert len(made["choices"]) == number
        assert made["usage"]["prompt_tokens"] == tokens


async def test_choices_are_numbered_prompt_by_prompt(bench: Bench) -> None:
    bench.say("hello")
    made = (await complete(bench, ["hello", "world"], n=2)).json
    assert [choice["index"] for choice in made["choices"]] == [0, 1, 2, 3]


async def test_a_stream_has_text_then_reason_then_done(bench: Bench) -> None:
    bench.say("hello world")
    answer = await complete(bench, "x", stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = answer.events
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["hello", " world", ""]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] == 4
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"best_of": 3, "stream": True}, "best_of"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_by_name(bench: Bench, fields: dict[str, Any], param: str) -> None:
    answer = await complete(bench, "x", **fields)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


@pytest.mark.parametrize("prompt", ["", [], [[]], [1, "x"], [10**6], 5])
async def test_a_prompt_that_is_none_is_refused(bench: Bench, prompt: Any) -> None:
    answer = await complete(bench, prompt)
    assert answer.status == 400
    assert answer.json["error"]["param"] == "prompt"


async def test_too_many_answers_are_refused(bench: Bench) -> None:
    answer = await complete(bench, ["x"] * 10, n=100)
    assert (answer.status, answer.json["error"]["param"]) == (400, "n")


async def test_a_request_id_in_use_is_refused_and_leaves_nothing_behind(bench: Bench) -> None:
    bench.say("a" * 50)
    bench.runner.gated = True
    body = b'{"model":"tiny","prompt":"x"}'
    task, leave = bench.client.open("POST", "/v1/completions", body, {"x-request-id": "same"})

    await asyncio.sleep(0.02)
    again = await bench.client.request("POST", "/v1/completions", body, {"x-request-id": "same"})
    assert again.status == 400
    leave()
    await task
    bench.runner.gate.release(10)
    await bench.idle()


async def test_a_stop_token_outside_the_vocabulary_is_refused_before_it_reaches_the_sampler(bench: Bench) -> None:
    answer = await complete(bench, "hello", stop_token_ids=[10**6], min_tokens=1)
    assert (answer.status, answer.json["error"]["param"]) == (400, "stop_token_ids")
    assert "1000000" in answer.json["error"]["message"]


async def test_a_prompt_of_exactly_the_limit_gets_one_token_and_one_more_is_refused(bench: Bench) -> None:
    bench.say("hello world")
    body = {"model": MODEL, "prompt": [3] * (CONTEXT - 1)}
    answer = (await bench.client.post("/v1/completions", body)).json
    assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (1, "length")
    refused = await bench.client.post("/v1/completions", body | {"prompt": [3] * CONTEXT})
    assert (refused.status, refused.json["error"]["code"]) == (400, "context_length_exceeded")
