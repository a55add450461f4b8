"""One request from end to end: streams, collected answers, usage, booking."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.conftest import RunningDoor, ask


def events(text: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


async def test_a_stream_is_passed_on_event_by_event(door: RunningDoor) -> None:
    async with door.post(ask(stream=True)) as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert len(response.headers["x-request-id"]) == 32
        received = events(await response.text())
    assert received[-1] == "[DONE]"
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in received[:-1])
    assert text == "Hello, world."


async def test_usage_is_always_asked_of_the_engine_and_kept_from_a_client_that_did_not_ask(door: RunningDoor) -> None:
    async with door.post(ask(stream=True)) as response:
        received = events(await response.text())
    assert all(event.get("usage") is None for event in received[:-1])
    assert all(event["choices"] for event in received[:-1])
    sent = json.loads(door.backend.asked[0].body)
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}


async def test_usage_reaches_a_client_that_asked_and_its_values_are_forwarded_as_they_came(door: RunningDoor) -> None:
    body = b'{"model":"fake","messages":[{"role":"user", "content":"\\u3042"}],"stream":true,"temperature":0.10,'
    body += b'"stream_options":{"include_usage":true}}'
    async with door.client.post("/v1/chat/completions", data=body) as response:
        received = events(await response.text())
    assert received[-2]["choices"] == []
    assert received[-2]["usage"] == {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    assert door.backend.asked[0].body == body


async def test_a_client_that_did_not_stream_gets_one_completion(door: RunningDoor) -> None:
    async with door.post(ask()) as response:
        answer = await response.json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, world."},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
