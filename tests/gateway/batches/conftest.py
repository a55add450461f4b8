"""Files and batches as the official client sees them, at a door on a real socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import openai
import pytest

from tests.gateway.conftest import ADMIN_KEY, RunningDoor, ask

URL = "/v1/chat/completions"
Batch = openai.types.Batch
Client = openai.AsyncOpenAI
ClientOf = Callable[..., Client]


@pytest.fixture
async def client_of() -> AsyncIterator[ClientOf]:
    """The official client with a key, at a door."""
    clients: list[Client] = []

    def make(door: RunningDoor, key: str = ADMIN_KEY) -> Client:
        clients.append(Client(base_url=f"{door.url}/v1", api_key=key, max_retries=0))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


@pytest.fixture
def client(door: RunningDoor, client_of: ClientOf) -> Client:
    return client_of(door)


def request(custom_id: str, content: str = "Hi", url: str = URL, **fields: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": ask(content) | fields}


def jsonl(*lines: Any) -> bytes:
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


async def begun(client: Client, lines: Sequence[Any], window: Any = "24h", endpoint: Any = URL) -> Batch:
    file = await client.files.create(file=("in.jsonl", jsonl(*lines)), purpose="batch")
    return await client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window=window)


async def ended(client: Client, batch: Batch, seconds: float = 15) -> Batch:
    return await until(client, batch, lambda it: it.status in ("completed", "failed", "expired", "cancelled"), seconds)


async def until(client: Client, batch: Batch, holds: Callable[[Batch], bool], seconds: float = 15) -> Batch:
    deadline = time.monotonic() + seconds
    while not holds(batch):
        assert time.monotonic() < deadline, batch
        await asyncio.sleep(0.02)
        batch = await client.batches.retrieve(batch.id)
    return batch


async def lines_of(client: Client, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    return [json.loads(line) for line in (await client.files.content(file_id)).text.splitlines()]


Refused = Awaitable[Any]


async def refusal(what: Refused, status: int) -> dict[str, Any]:
    """The error object of a call that is refused with this status."""
    with pytest.raises(openai.APIStatusError) as caught:
        await what
    assert caught.value.status_code == status, caught.value
    body = caught.value.body
    assert isinstance(body, dict)
    return body
