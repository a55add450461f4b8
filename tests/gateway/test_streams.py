"""What a client sees of an engine that refuses, dies, stalls or is slow, before and after the first token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from backends.errors import Broken, TimedOut, Unreachable
from backends.fake import DONE, FakeBackend, Script, chat_chunk, chat_script, event
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of
from tests.gateway.test_pipeline import events

ROLE = event(chat_chunk({"role": "assistant", "content": ""}))
WORD = event(chat_chunk({"content": "word"}))
ERROR = event({"error": {"message": "queue full", "type": "SERVICE_UNAVAILABLE", "code": 503}})
SGLANG = b'{"object":"error","message":"too long File \\"/srv/app/server.py\\", line 1870, in x","code":400}'
BOTH = pytest.mark.parametrize("stream", [True, False])


def saying(*steps: Any, **options: Any) -> FakeBackend:
    return FakeBackend(lambda body: Script(steps, **options))


@BOTH
@pytest.mark.parametrize("before", [(), (ROLE,)], ids=["at once", "after the role"])
async def test_a_refusal_before_content_has_a_true_status(start_door: StartDoor, stream: bool, before: Any) -> None:
    door = await start_door(saying(*before, ERROR, DONE))
    async with door.post(ask(stream=stream)) as response:
        error = await error_of(response, 503)
        assert response.headers["retry-after"]
    assert error["message"] == "queue full"


@BOTH
async def test_an_engines_error_is_put_in_our_shape_without_its_paths(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(saying(SGLANG, status=400))
    async with door.post(ask(stream=stream)) as response:
        error = await error_of(response, 400)
    assert error["type"] == "invalid_request_error"
    assert "/srv" not in error["message"]


@BOTH
async def test_a_too_long_prompt_is_told_with_the_engines_numbers(start_door: StartDoor, stream: bool) -> None:
    body = b'{"error":{"message":"2631 tokens, 2048 at most","code":"context_length_exceeded"}}'
    door = await start_door(saying(body, status=400))
    async with door.post(ask(stream=stream)) as response:
        error = await error_of(response, 400, "context_length_exceeded")
    assert "2631" in error["message"]


@BOTH
@pytest.mark.parametrize(
    ("failure", "status"), [(Broken("x"), 502), (TimedOut("x"), 504), (Unreachable("x"), 503)], ids=str
)
async def test_a_failure_before_content_has_a_true_status(
    start_door: StartDoor, stream: bool, failure: Any, status: int
) -> None:
    door = await start_door(saying(ROLE, failure))
    async with door.post(ask(stream=stream)) as response:
        await error_of(response, status)


@pytest.mark.parametrize(
    "ending", [(Broken("x"),), (), (ERROR,), (ERROR, DONE)], ids=["broken", "cut", "error", "error then done"]
)
async def test_a_stream_that_fails_midway_ends_with_an_error_event_and_no_done(
    start_door: StartDoor, ending: Any
) -> None:
    door = await start_door(saying(ROLE, WORD, *ending))
    async with door.post(ask(stream=True)) as response:
        assert response.status == 200
        received = events(await response.text())
    assert received[1]["choices"][0]["delta"]["content"] == "word"
    assert set(received[-1]) == {"error"}
    assert "[DONE]" not in received


async def test_an_answer_that_is_cut_is_no_answer_for_a_client_that_does_not_stream(start_door: StartDoor) -> None:
    door = await start_door(saying(ROLE, WORD))
    async with door.post(ask()) as response:
        await error_of(response, 502, "engine_error")


@BOTH
async def test_an_empty_answer_is_an_error(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(saying())
    async with door.post(ask(stream=stream)) as response:
        await error_of(response, 502)


async def test_a_finish_without_done_is_a_whole_answer_and_gets_its_done(start_door: StartDoor) -> None:
    door = await start_door(saying(ROLE, WORD, event(chat_chunk({}, finish="stop"))))
    async with door.post(ask(stream=True)) as response:
        assert events(await response.text())[-1] == "[DONE]"


async def test_events_cut_anywhere_arrive_whole(start_door: StartDoor) -> None:
    whole = b"".join(step for step in chat_script(("日本", "🙂👨‍👩‍👧", "語")).steps if isinstance(step, bytes))
    door = await start_door(saying(*(whole[i : i + 7] for i in range(0, len(whole), 7))))
    async with door.post(ask(stream=True)) as response:
        received = events(await response.text())
    text = "".join(item["choices"][0]["delta"].get("content", "") for item in received[:-1])
    assert text == "日本🙂👨‍👩‍👧語"


@BOTH
async def test_no_first_token_in_time_is_a_504_that_is_not_to_be_repeated(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(saying(ROLE, 30.0), first_token_timeout=0.1)
    async with door.post(ask(stream=stream)) as response:
        await error_of(response, 504, "engine_timeout")
        assert response.headers["x-should-retry"] == "false"
    assert door.backend.asked[0].aborted


async def test_no_status_in_time_is_a_504(start_door: StartDoor) -> None:
    door = await start_door(saying(WORD, delay=30.0), first_token_timeout=0.1)
    async with door.post(ask(stream=True)) as response:
        await error_of(response, 504, "engine_timeout")
    assert door.backend.asked[0].aborted


async def test_the_wait_for_the_status_counts_towards_the_first_token(start_door: StartDoor) -> None:
    door = await start_door(saying(0.3, WORD, DONE, delay=0.3), first_token_timeout=0.45)
    async with door.post(ask(stream=True)) as response:
        await error_of(response, 504, "engine_timeout")


async def test_a_stall_between_tokens_ends_the_stream_with_an_error(start_door: StartDoor) -> None:
    door = await start_door(saying(WORD, 30.0), stall_timeout=0.1)
    async with door.post(ask(stream=True)) as response:
        received = events(await response.text())
    assert received[-1]["error"]["code"] == "engine_timeout"
    assert door.backend.asked[0].aborted


@BOTH
async def test_the_total_time_is_bounded(start_door: StartDoor, stream: bool) -> None:
    words = [part for _ in range(100) for part in (WORD, 0.02)]
    door = await start_door(saying(*words), total_timeout=0.2)
    async with door.post(ask(stream=stream)) as response:
        text = await response.text()
    assert "engine_timeout" in text
    assert door.backend.asked[0].aborted


async def test_silence_is_filled_with_comments_which_fix_the_status(start_door: StartDoor) -> None:
    door = await start_door(saying(0.25, ROLE, ERROR), keepalive_seconds=0.1)
    async with door.post(ask(stream=True)) as response:
        assert response.status == 200
        text = await response.text()
    assert text.count(": keep-alive\n\n") in (1, 2)  # the clock of a busy machine
    assert events(text)[-1]["error"]["message"] == "queue full"


async def test_an_answer_quicker_than_the_silence_has_no_comments(door: RunningDoor) -> None:
    async with door.post(ask(stream=True)) as response:
        assert b"keep-alive" not in await response.read()


async def test_tokens_are_sent_as_they_come(start_door: StartDoor) -> None:
    door = await start_door(saying(WORD, 10.0, WORD, DONE))
    async with door.post(ask(stream=True)) as response, asyncio.timeout(8):
        assert b"word" in await response.content.readany()


async def test_an_unreachable_engine_is_a_503_and_shows_in_readiness(start_door: StartDoor) -> None:
    door = await start_door(saying(ROLE))
    door.backend.answer = lambda body: (_ for _ in ()).throw(Unreachable("gone"))
    door.backend.is_ready = False
    async with door.post(ask()) as response:
        await error_of(response, 503, "engine_unavailable")
        assert response.headers["retry-after"]
    async with door.client.get("/readyz") as response:
        assert response.status == 503
        assert "engine" in (await response.json())["missing"][0]


async def test_an_engine_that_was_never_up_is_a_503_and_not_an_unknown_model(start_door: StartDoor) -> None:
    backend = FakeBackend()
    backend.is_ready = False
    door = await start_door(backend)
    async with door.post(ask()) as response:
        await error_of(response, 503, "engine_unavailable")


async def test_steering_headers_are_the_doors_alone(door: RunningDoor) -> None:
    mine = {"x-request-id": "mine", "x-sekisho-cache-salt": "theirs", "x-sekisho-priority": "9", "cookie": "a=b"}
    async with door.post(ask(), headers=mine) as response:
        request_id = response.headers["x-request-id"]
    sent = door.backend.asked[0].headers
    assert sent == {"x-request-id": request_id, "x-sekisho-cache-salt": "default", "x-sekisho-class": "api"}


async def test_text_completions_go_the_same_way(start_door: StartDoor) -> None:
    chunk = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "fake"}
    parts = [chunk | {"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("a", "b")]
    end = chunk | {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
    door = await start_door(saying(*map(event, parts), event(end), DONE))
    async with door.post({"model": "fake", "prompt": "x"}, path="/v1/completions") as response:
        answer = await response.json()
    assert answer["object"] == "text_completion"
    assert answer["choices"] == [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "length"}]
    assert json.loads(door.backend.asked[0].body)["stream"] is True
    assert door.backend.asked[0].path == "/v1/completions"
