"""Probabilities of prompts, prompts before their answers, and the best of several answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.native_engine.server.conftest import MODEL, Answer, Bench
from tests.native_engine.tiny_model import vocabulary

WORDS = vocabulary()
HELLO, WORLD = WORDS.index("hello"), WORDS.index("Ġworld")


async def complete(bench: Bench, **fields: Any) -> Answer:
    body = {"model": MODEL, "prompt": "hello world", "temperature": 0, **fields}
    answer = await bench.client.post("/v1/completions", body)
    assert answer.status == 200, answer.json
    return answer


async def test_a_completion_tells_of_its_prompt_as_vllm_does(bench: Bench) -> None:
    bench.say("hello")
    (choice,) = (await complete(bench, prompt_logprobs=1)).json["choices"]
    nothing, world = choice["prompt_logprobs"]
    assert nothing is None
    assert world[str(WORLD)].keys() == {"logprob", "rank", "decoded_token"}
    assert world[str(WORLD)]["decoded_token"] == " world"
    assert {entry["rank"] for entry in world.values()} >= {1}


async def test_a_chat_tells_of_its_prompt_beside_the_choices(bench: Bench) -> None:
    bench.say("hello")
    answer = (await bench.client.chat(prompt_logprobs=0, n=2)).json
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert all(len(entry) == 1 for entry in answer["prompt_logprobs"][1:])


async def test_who_does_not_ask_has_no_such_field(bench: Bench) -> None:
    bench.say("hello")
    assert "prompt_logprobs" not in (await bench.client.chat()).json
    assert "prompt_logprobs" not in (await complete(bench)).json["choices"][0]


async def test_echo_puts_the_prompt_before_the_answer(bench: Bench) -> None:
    bench.say(" hello")
    (choice,) = (await complete(bench, echo=True)).json["choices"]
    assert choice["text"] == "hello world hello"
    assert choice["logprobs"] is None


@pytest.mark.parametrize("prompt", ["hello world", [HELLO, WORLD]])
@pytest.mark.parametrize("n", [1, 2])
async def test_echo_tells_of_the_prompt_where_the_answer_is_told_of(bench: Bench, prompt: Any, n: int) -> None:
    bench.say(" hello")
    for choice in (await complete(bench, prompt=prompt, echo=True, logprobs=1, n=n)).json["choices"]:
        told = choice["logprobs"]
        assert "".join(told["tokens"]) == choice["text"] == "hello world hello"
        assert told["text_offset"][:3] == [0, 5, 11]
        assert told["token_logprobs"][0] is told["top_logprobs"][0] is None
        assert all(value <= 0 for value in told["token_logprobs"][1:])
        assert " world" in told["top_logprobs"][1]


async def test_a_stream_begins_with_the_echo(bench: Bench) -> None:
    bench.say(" hello")
    answer = await complete(bench, echo=True, logprobs=0, stream=True)
    choices = [event["choices"][0] for event in answer.events if event != "[DONE]"]
    assert "".join(choice["text"] for choice in choices) == "hello world hello"
    tokens = [token for choice in choices if choice["logprobs"] for token in choice["logprobs"]["tokens"]]
    assert "".join(tokens) == "hello world hello"


async def test_a_stop_string_in_the_prompt_stops_nothing(bench: Bench) -> None:
    bench.say(" hello world")
    (choice,) = (await complete(bench, echo=True, stop=" world")).json["choices"]
    assert choice["text"] == "hello world hello"


async def test_the_best_of_several_is_the_likeliest_on_average(bench: Bench) -> None:
    """The model wants to say hello; a bias and a high temperature make most answers end in something else."""
    bench.say("hello")
    asked = {"temperature": 1, "seed": 3, "max_tokens": 1, "logit_bias": {str(HELLO): -46}}
    every = (await complete(bench, **asked, n=16)).json["choices"]
    assert 0 < sum(choice["text"] == "hello" for choice in every) < 16
    answer = (await complete(bench, **asked, best_of=16)).json
    assert [choice["text"] for choice in answer["choices"]] == ["hello"]
    assert answer["choices"][0]["index"] == 0
    assert answer["choices"][0]["logprobs"] is None
    assert answer["usage"]["completion_tokens"] == 16
    best = (await complete(bench, **asked, best_of=16, n=3, logprobs=0)).json["choices"]
    likely = [choice["logprobs"]["token_logprobs"][0] for choice in best]
    assert likely == sorted(likely, reverse=True)
    assert len(likely) == 3


async def test_each_prompt_has_its_best(bench: Bench) -> None:
    bench.say("hello")
    choices = (await complete(bench, prompt=["x", "y"], best_of=3, echo=True)).json["choices"]
    assert [choice["text"] for choice in choices] == ["xhello", "yhello"]
