"""/v1/embeddings and /v1/rerank at the door: one piece of JSON in, one out, and the prompt booked."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from backends.errors import Broken
from backends.fake import FakeBackend, Script
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, error_of
from tests.gateway.test_quotas_at_the_door import allow

EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
VECTORS = {
    "object": "list",
    "model": "fake",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}],
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}
RANKING = {"id": "r", "model": "fake", "results": [{"index": 1, "relevance_score": 0.9}], "usage": {"total_tokens": 8}}


def answering(value: Any, status: int = 200) -> FakeBackend:
    return FakeBackend(lambda body: Script([json.dumps(value).encode()], status, content_type="application/json"))


async def booked(door: RunningDoor) -> dict[str, int]:
    async with door.client.get("/admin/v1/usage") as response:
        rows = (await response.json())["data"]
    names = ("requests", "prompt_tokens", "completion_tokens")
    return {name: sum(row[name] for row in rows) for name in names}


async def test_official_client_gets_vectors(start_door: StartDoor) -> None:
    door = await start_door(answering(VECTORS))
    async with openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=ADMIN_KEY, max_retries=0) as client:
        answer = await client.embeddings.create(model="fake", input=["hi"], encoding_format="float")
    assert answer.data[0].embedding == [0.25, -0.5]
    asked = door.backend.asked[0]
    assert asked.path == EMBEDDINGS
    assert json.loads(asked.body) == {"model": "fake", "input": ["hi"], "encoding_format": "float"}
    assert await booked(door) == {"requests": 1, "prompt_tokens": 3, "completion_tokens": 0}


async def test_documents_go_to_the_engine_as_strings(start_door: StartDoor) -> None:
    door = await start_door(answering(RANKING))
    asked = {"model": "fake", "query": "q", "documents": [{"text": "a"}, "b"], "top_n": 1}
    async with door.post(asked, RERANK) as response:
        assert response.status == 200
        assert (await response.json())["results"] == RANKING["results"]
    assert door.backend.asked[0].path == RERANK
    assert json.loads(door.backend.asked[0].body) == asked | {"documents": ["a", "b"]}
    assert await booked(door) == {"requests": 1, "prompt_tokens": 8, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (EMBEDDINGS, {"model": "fake", "input": []}, "input"),
        (EMBEDDINGS, {"model": "fake", "input": "x", "stream": True}, "stream"),
        (RERANK, {"model": "fake", "query": "q", "documents": []}, "documents"),
    ],
)
async def test_bad_bodies_never_reach_the_engine(door: RunningDoor, path: str, body: Any, param: str) -> None:
    async with door.post(body, path) as response:
        assert (await error_of(response, 400))["param"] == param
    assert door.backend.asked == []


async def test_an_engine_that_cannot_is_heard(start_door: StartDoor) -> None:
    door = await start_door(answering({"error": {"message": "no embeddings here", "code": 501}}, 501))
    async with door.post({"model": "fake", "input": "hi"}, EMBEDDINGS) as response:
        assert (await error_of(response, 501))["message"] == "no embeddings here"


async def test_a_limit_on_output_is_nothing_to_those_who_ask_for_none(start_door: StartDoor) -> None:
    door = await start_door(answering(VECTORS), key_cache_seconds=0)
    await allow(door, max_output_tokens=5)
    async with door.post({"model": "fake", "input": "hi"}, EMBEDDINGS) as response:
        assert response.status == 200
    assert json.loads(door.backend.asked[0].body) == {"model": "fake", "input": "hi"}


@pytest.mark.parametrize("steps", [[b'{"object": "list"', Broken("cut")], [b"hello"]])
async def test_half_an_answer_is_an_error(start_door: StartDoor, steps: list[Any]) -> None:
    door = await start_door(FakeBackend(lambda body: Script(steps, content_type="application/json")))
    async with door.post({"model": "fake", "input": "hi"}, EMBEDDINGS) as response:
        await error_of(response, 502, "engine_error")


async def test_a_key_for_chat_alone_gets_no_vectors(start_door: StartDoor) -> None:
    door = await start_door(answering(VECTORS))
    new = {"owner": "service_account:admin", "name": "k", "endpoints": ["chat"]}
    async with door.post({"id": "robot", "name": "robot"}, "/admin/v1/service-accounts") as response:
        assert response.status == 201
    async with door.post(new | {"owner": "service_account:robot"}, "/admin/v1/keys") as response:
        key = (await response.json())["key"]
    headers = {"authorization": f"Bearer {key}"}
    for path in (EMBEDDINGS, RERANK, "/v1/responses"):
        async with door.post({"model": "fake", "input": "hi"}, path, headers=headers) as response:
            await error_of(response, 403)
    assert door.backend.asked == []
