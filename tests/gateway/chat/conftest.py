"""The chat as its page uses it: conversations over HTTP, answers as events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from tests.gateway.conftest import RunningDoor

CONVERSATIONS = "/chat/v1/conversations"


class Told(NamedTuple):
    id: int
    name: str
    data: dict[str, Any]


async def told(response: aiohttp.ClientResponse) -> AsyncIterator[Told]:
    """The events of an answer as they come."""
    fields: dict[str, str] = {}
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield Told(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}


async def begin(door: RunningDoor, **fields: Any) -> dict[str, Any]:
    async with door.client.post(CONVERSATIONS, json=fields) as response:
        assert response.status == 201, await response.text()
        return dict(await response.json())


async def look(door: RunningDoor, conversation: str) -> dict[str, Any]:
    async with door.client.get(f"{CONVERSATIONS}/{conversation}") as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


@asynccontextmanager
async def asking(door: RunningDoor, conversation: str, **fields: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    body = {"model": "fake"} | fields
    async with door.client.post(f"{CONVERSATIONS}/{conversation}/answers", json=body) as response:
        yield response


async def answer(door: RunningDoor, conversation: str, **fields: Any) -> list[Told]:
    """All that is told of it, to the end."""
    async with asking(door, conversation, **fields) as response:
        assert response.status == 200, await response.text()
        return [event async for event in told(response)]


async def events(door: RunningDoor, message: str, **options: Any) -> list[Told]:
    async with door.client.get(f"/chat/v1/answers/{message}/events", **options) as response:
        assert response.status == 200, await response.text()
        return [event async for event in told(response)]


def text_of(some: list[Told]) -> str:
    return "".join(event.data.get("text", "") for event in some if event.name == "delta")
