"""What bad input gets: each line a body and the one right answer. None of it reaches the engine."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.gateway.conftest import CHAT, RunningDoor, StartDoor, ask, error_of

IMAGE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
DEEP = b'{"model":"fake","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

BODIES: list[tuple[str, bytes, str | None]] = [
    ("empty", b"", None),
    ("not JSON", b"hello", None),
    ("cut JSON", b'{"model": "fake", "messages": [', None),
    ("not UTF-8", b'{"model": "fake", "messages": [{"role": "user", "content": "\xff\xfe"}]}', None),
    ("an array", b"[]", None),
    ("null", b"null", None),
    ("nested deep", DEEP, None),
    ("NaN", b'{"model":"fake","messages":[{"role":"user","content":"x"}],"temperature":NaN}', None),
]


def wrong(param: str, **fields: Any) -> tuple[str, bytes, str | None]:
    return f"{param} {str(fields)[:60]}", json.dumps(ask() | fields).encode(), param


def message(param: str, *messages: Any) -> tuple[str, bytes, str | None]:
    return wrong(param, messages=list(messages))


BODIES += [
    ("no messages", b'{"model":"fake"}', "messages"),
    ("no model", b'{"messages":[{"role":"user","content":"x"}]}', "model"),
    wrong("model", model=3),
    wrong("model", model=None),
    wrong("messages", messages=[]),
    wrong("messages", messages="hi"),
    wrong("messages", messages=None),
    message("messages[0]", "hi"),
    message("messages[0].role", {"role": "wizard", "content": "x"}),
    message("messages[0].role", {"content": "x"}),
    message("messages[0].content", {"role": "user", "content": None}),
    message("messages[0].content", {"role": "user", "content": 5}),
    message("messages[0].content", {"role": "user"}),
    message("messages[0].content[0].type", {"role": "user", "content": [{"type": "hologram"}]}),
    wrong("temperature", temperature=-0.1),
    wrong("temperature", temperature=2.1),
    wrong("temperature", temperature="0.5"),
    wrong("top_p", top_p=1.5),
    wrong("top_p", top_p="x"),
    wrong("n", n=0),
    wrong("n", n=1000),
    wrong("n", n=1.5),
    wrong("max_tokens", max_tokens=0),
    wrong("max_tokens", max_tokens=-1),
    wrong("max_tokens", max_tokens="many"),
    wrong("max_completion_tokens", max_completion_tokens=0),
    wrong("presence_penalty", presence_penalty=9),
    wrong("stop", stop=["a", "b", "c", "d", "e"]),
    wrong("seed", seed=2**70),
    wrong("stream", stream="yes"),
    wrong("stream_options", stream_options={"include_usage": True}),
    wrong("frobnicate", frobnicate=1),
    wrong("priority", priority=1),
    wrong("cache_salt", cache_salt="x"),
    wrong("request_id", request_id="x"),
    wrong("api_base", api_base="http://evil"),
]


@pytest.mark.parametrize(("body", "param"), [line[1:] for line in BODIES], ids=[line[0] for line in BODIES])
async def test_a_bad_body_is_a_400_that_names_the_field(door: RunningDoor, body: bytes, param: str | None) -> None:
    async with door.client.post(CHAT, data=body) as response:
        error = await error_of(response, 400)
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param
    assert door.backend.asked == []


COMPLETIONS = [
    (b'{"model":"fake"}', "prompt"),
    (b'{"model":"fake","prompt":[]}', "prompt"),
    (b'{"model":"fake","prompt":{"a":1}}', "prompt"),
    (b'{"model":"fake","prompt":"x","messages":[]}', "messages"),
    (b'{"model":"fake","prompt":"x","best_of":0}', "best_of"),
]


@pytest.mark.parametrize(("body", "param"), COMPLETIONS)
async def test_a_bad_completion_body_is_a_400(door: RunningDoor, body: bytes, param: str) -> None:
    async with door.client.post("/v1/completions", data=body) as response:
        error = await error_of(response, 400)
    assert error["param"] == param
    assert door.backend.asked == []


async def test_an_unknown_field_is_answered_as_the_official_service_does(door: RunningDoor) -> None:
    async with door.post(ask(frobnicate=1)) as response:
        error = await error_of(response, 400)
    assert error["message"] == "Unrecognized request argument supplied: frobnicate"


async def test_a_field_that_a_setting_lets_through_reaches_the_engine(start_door: StartDoor) -> None:
    door = await start_door(allowed_fields=["frobnicate"])
    async with door.post(ask(frobnicate={"a": 1})) as response:
        assert response.status == 200
    assert json.loads(door.backend.asked[0].body)["frobnicate"] == {"a": 1}


async def test_an_unknown_model_is_a_404_and_the_door_says_so(door: RunningDoor) -> None:
    async with door.post(ask(model="gpt-5")) as response:
        error = await error_of(response, 404, "model_not_found")
    assert "gpt-5" in error["message"]
    assert door.backend.asked == []


@pytest.mark.parametrize("excess", [1, 5_000_000], ids=["a little", "far"])
async def test_a_body_over_the_limit_is_a_413(start_door: StartDoor, excess: int) -> None:
    door = await start_door(max_body_bytes=100_000)
    async with door.client.post(CHAT, data=io.BytesIO(b"x" * (100_000 + excess))) as response:
        await error_of(response, 413, "body_too_large")
    async with door.post(ask("a" * 90_000)) as response:
        assert response.status == 200


async def test_a_chunked_body_over_the_limit_is_a_413(start_door: StartDoor) -> None:
    door = await start_door(max_body_bytes=100_000)

    async def parts() -> Any:
        for _ in range(15):
            yield b"x" * 10_000

    async with door.client.post(CHAT, data=parts()) as response:
        await error_of(response, 413, "body_too_large")


async def test_a_prompt_of_some_megabytes_is_taken(door: RunningDoor) -> None:
    body = io.BytesIO(json.dumps(ask("a" * 5_000_000)).encode())
    async with door.client.post(CHAT, data=body) as response:
        assert response.status == 200


async def test_too_many_messages_is_a_400(start_door: StartDoor) -> None:
    door = await start_door(max_messages=10)
    async with door.post(ask() | {"messages": [{"role": "user", "content": "x"}] * 11}) as response:
        error = await error_of(response, 400, "too_many_messages")
    assert error["param"] == "messages"


async def test_too_many_or_too_long_headers_are_a_431(start_door: StartDoor) -> None:
    door = await start_door(max_header_bytes=2048, max_headers=20)
    async with door.client.get("/v1/models", headers={"x-long": "a" * 3000}) as response:
        await error_of(response, 431, "headers_too_large")
    async with door.client.get("/v1/models", headers={f"x-{i}": "a" for i in range(30)}) as response:
        await error_of(response, 431, "headers_too_large")


async def test_text_parts_are_taken_and_forwarded(door: RunningDoor) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    async with door.post(ask() | {"messages": [{"role": "user", "content": parts}]}) as response:
        assert response.status == 200
    assert json.loads(door.backend.asked[0].body)["messages"][0]["content"] == parts


async def test_user_metadata_and_sampling_extensions_are_taken(door: RunningDoor) -> None:
    fields = {"user": "u", "metadata": {"a": "b"}, "top_k": 5, "min_p": 0.1, "chat_template_kwargs": {"x": True}}
    async with door.post(ask(**fields)) as response:
        assert response.status == 200, await response.text()
    assert fields.items() <= json.loads(door.backend.asked[0].body).items()
