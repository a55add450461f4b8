"""/v1/responses on a real socket, asked by the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from backends.errors import BackendError, Broken
from backends.fake import DONE, FakeBackend, Script, chat_chunk, chat_script, event, usage_chunk
from backends.wire import sse
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, ask, error_of
from tests.gateway.test_quotas_at_the_door import allow

PATH = "/v1/responses"
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


@asynccontextmanager
async def official(door: RunningDoor) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=ADMIN_KEY, max_retries=0) as client:
        yield client


def saying(*deltas: dict[str, Any], finish: str = "stop") -> Script:
    """An engine's whole stream of these deltas."""
    steps: list[bytes] = [event(chat_chunk({"role": "assistant", "content": ""}))]
    steps += [event(chat_chunk(delta)) for delta in deltas]
    return Script([*steps, event(chat_chunk({}, finish=finish)), event(usage_chunk(5, len(deltas))), DONE])


def scripted(*scripts: Script) -> FakeBackend:
    """Each request gets the next script."""
    left = iter(scripts)
    return FakeBackend(lambda body: next(left))


def calling(arguments: str) -> list[dict[str, Any]]:
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    return [
        {"tool_calls": [head]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": one}}]} for one in arguments),
    ]


def asked_of(door: RunningDoor, index: int = -1) -> dict[str, Any]:
    return dict(json.loads(door.backend.asked[index].body))


def kinds(events: Sequence[Any]) -> list[str]:
    return [one.type for one in events]


async def test_official_client_gets_a_response_and_the_engine_was_asked_as_chat(door: RunningDoor) -> None:
    async with official(door) as client:
        response = await client.responses.create(
            model="fake", input="Hi", instructions="Be brief.", max_output_tokens=9
        )
    assert response.output_text == "Hello, world."
    assert response.status == "completed"
    assert response.usage
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (5, 4, 9)
    assert door.backend.asked[0].path == "/v1/chat/completions"
    asked = asked_of(door)
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (asked["stream"], asked["max_completion_tokens"]) == (True, 9)


async def test_official_client_streams_a_response(door: RunningDoor) -> None:
    async with official(door) as client:
        events = [one async for one in await client.responses.create(model="fake", input="Hi", stream=True)]
    assert kinds(events)[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == "Hello, world."
    assert events[-1].type == "response.completed"
    assert events[-1].response.usage
    assert events[-1].response.usage.total_tokens == 9


async def test_official_streaming_helper_puts_the_same_response_together(door: RunningDoor) -> None:
    async with official(door) as client, client.responses.stream(model="fake", input="Hi") as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    assert final.output_text == "Hello, world."


async def test_official_client_parses_what_it_gave_a_schema_for(start_door: StartDoor) -> None:
    class City(BaseModel):
        name: str

    door = await start_door(scripted(saying({"content": '{"name":'}, {"content": '"Kyoto"}'})))
    async with official(door) as client:
        response = await client.responses.parse(model="fake", input="Where?", text_format=City)
    assert response.output_parsed == City(name="Kyoto")
    asked = asked_of(door)["response_format"]
    assert (asked["type"], asked["json_schema"]["name"], asked["json_schema"]["strict"]) == (
        "json_schema",
        "City",
        True,
    )


async def test_two_turns_with_a_function_that_the_client_runs(start_door: StartDoor) -> None:
    thought = {"reasoning_content": "I should look."}
    door = await start_door(scripted(saying(thought, *calling('{"city":"Kyoto"}')), saying({"content": "Rain."})))
    conversation: list[Any] = [{"role": "user", "content": "Weather in Kyoto?"}]
    async with official(door) as client:
        first = await client.responses.create(model="fake", input=conversation, tools=[TOOL], tool_choice="required")
        call = first.output[-1]
        assert call.type == "function_call"
        assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Kyoto"})
        conversation += first.output
        conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain"})
        second = await client.responses.create(model="fake", input=conversation, tools=[TOOL])
    assert second.output_text == "Rain."
    function = {"name": "weather", "arguments": '{"city":"Kyoto"}'}
    assert asked_of(door)["messages"] == [
        {"role": "user", "content": "Weather in Kyoto?"},
        {
            "role": "assistant",
            "reasoning_content": "I should look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]


async def test_official_streaming_helper_follows_a_call(start_door: StartDoor) -> None:
    door = await start_door(scripted(saying(*calling('{"city":"Kyoto"}'))))
    async with official(door) as client, client.responses.stream(model="fake", input="Hi", tools=[TOOL]) as stream:
        events = [one async for one in stream]
        final = await stream.get_final_response()
    assert events[-1].type == "response.completed"
    call = final.output[0]
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Kyoto"}


async def test_a_refusal_reaches_the_official_client(start_door: StartDoor) -> None:
    door = await start_door(scripted(saying({"refusal": "No."}), saying({"refusal": "No."})))
    async with official(door) as client:
        response = await client.responses.create(model="fake", input="Hi")
        events = [one async for one in await client.responses.create(model="fake", input="Hi", stream=True)]
    message = response.output[0]
    assert message.type == "message"
    assert message.content[0].type == "refusal"
    assert "response.refusal.done" in kinds(events)


async def test_an_answer_at_its_limit_is_incomplete(start_door: StartDoor) -> None:
    door = await start_door(scripted(saying({"content": "Hel"}, finish="length")))
    async with official(door) as client:
        response = await client.responses.create(model="fake", input="Hi", max_output_tokens=1)
    assert response.status == "incomplete"
    assert response.incomplete_details
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_on_the_wire_there_are_named_events_and_no_done(door: RunningDoor) -> None:
    async with door.post({"model": "fake", "input": "Hi", "stream": True}, PATH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        raw = await response.read()
    events = sse.EventParser().feed(raw)
    assert [one.name for one in events] == [json.loads(one.data)["type"] for one in events]
    assert b"[DONE]" not in raw


async def test_an_engine_that_breaks_off_is_a_failed_response_and_never_a_silent_cut(start_door: StartDoor) -> None:
    steps: list[bytes | float | BackendError] = [event(chat_chunk({"content": "Hel"})), Broken("cut")]
    door = await start_door(scripted(Script(steps)))
    async with official(door) as client:
        events = [one async for one in await client.responses.create(model="fake", input="Hi", stream=True)]
    assert kinds(events)[-2:] == ["error", "response.failed"]
    assert events[-1].response.error.code == "server_error"
    assert events[-1].response.output_text == "Hel"


async def test_an_engine_that_breaks_off_before_a_whole_answer_is_an_error(start_door: StartDoor) -> None:
    door = await start_door(scripted(Script([event(chat_chunk({"content": "Hel"})), Broken("cut")])))
    async with door.post({"model": "fake", "input": "Hi"}, PATH) as response:
        await error_of(response, 502, "engine_error")


async def test_comments_keep_a_silent_stream_alive(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("x",), delay=0.2)), keepalive_seconds=0.05)
    async with door.post({"model": "fake", "input": "Hi", "stream": True}, PATH) as response:
        raw = await response.read()
    assert raw.startswith(b": keep-alive\n\n")
    assert sse.EventParser().feed(raw)[-1].name == "response.completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_before_the_first_word_has_its_status(start_door: StartDoor, stream: bool) -> None:
    door = await start_door(scripted(Script([b'{"error":{"message":"no"}}'], status=400)))
    async with door.post({"model": "fake", "input": "Hi", "stream": stream}, PATH) as response:
        await error_of(response, 400)
    async with door.post({"model": "other", "input": "Hi", "stream": stream}, PATH) as response:
        await error_of(response, 404, "model_not_found")


async def test_what_cannot_be_asked_never_reaches_the_engine(start_door: StartDoor) -> None:
    door = await start_door(max_messages=2)
    async with door.post({"model": "fake", "input": "Hi", "previous_response_id": "resp_1"}, PATH) as response:
        assert (await error_of(response, 400, "unsupported_parameter"))["param"] == "previous_response_id"
    many = [{"role": "user", "content": "Hi"}] * 3
    async with door.post({"model": "fake", "input": many}, PATH) as response:
        assert (await error_of(response, 400, "too_many_messages"))["param"] == "input"
    assert door.backend.asked == []


async def test_nothing_is_stored(door: RunningDoor) -> None:
    async with official(door) as client:
        response: Response = await client.responses.create(model="fake", input="Hi", store=True)
        for act in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError, match="not stored"):
                await act(response.id)
    assert (response.model_extra or {})["store"] is False


async def test_a_response_is_booked_as_chat_is(door: RunningDoor) -> None:
    for body, path in ((ask(), "/v1/chat/completions"), ({"model": "fake", "input": "Hi"}, PATH)):
        async with door.post(body, path) as response:
            assert response.status == 200
    async with door.client.get("/admin/v1/usage") as response:
        rows = (await response.json())["data"]
    assert sum(row["requests"] for row in rows) == 2
    assert sum(row["completion_tokens"] for row in rows) == 8


async def test_the_limit_of_a_policy_holds_and_the_clients_own_goes_before_it(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, max_output_tokens=5)
    for own, asked in (({}, 5), ({"max_output_tokens": 3}, 3)):
        async with door.post({"model": "fake", "input": "Hi", **own}, PATH) as response:
            assert response.status == 200
        assert asked_of(door)["max_completion_tokens"] == asked
