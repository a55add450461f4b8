"""Clients that people use, each a program of its own, through the door to an engine that keeps the contract."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.backends.check import words
from tests.external.packages import npm_packages, python_packages
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor
from tests.house.tree import ROOT

FOLDER = Path(__file__).parent / "clients"
TEXT = " ".join(f"word{number}" for number in range(30))
WEATHER = ["get_weather", {"city": "Paris"}]

Run = Callable[..., Awaitable[Any]]


@pytest.fixture
async def door(start_door: StartDoor) -> RunningDoor:
    return await start_door(words.engine())


@pytest.fixture
def run(door: RunningDoor) -> Run:
    """Runs a client to its end, and gives what it printed."""

    async def to_its_end(*command: str) -> Any:
        environment = {**os.environ, "SEKISHO_URL": f"{door.url}/v1", "SEKISHO_KEY": ADMIN_KEY}
        process = await asyncio.create_subprocess_exec(
            *command, cwd=FOLDER, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, faults = await process.communicate()
        assert process.returncode == 0, faults.decode()
        return json.loads(said)

    return to_its_end


@pytest.fixture(scope="session")
def python() -> str:
    return str(python_packages(FOLDER / "requirements.txt", ROOT / ".cache" / "clients", "LangChain and LlamaIndex"))


async def test_the_official_client_for_node(run: Run) -> None:
    npm_packages(FOLDER, "the official client for Node.js")
    seen = await run("node", "with_openai.mjs")
    assert seen.pop("error") == ["NotFoundError", 404, "model_not_found"]
    assert (seen.pop("tools"), seen.pop("models")) == ([WEATHER], ["fake"])
    assert seen == dict.fromkeys(("chat", "stream", "response", "responseStream"), TEXT)


@pytest.mark.slow
async def test_langchain(run: Run, python: str) -> None:
    seen = await run(python, "with_langchain.py")
    assert seen == {
        "invoke": TEXT,
        "usage": 30,
        "stream": TEXT,
        "batch": [TEXT] * 3,
        "structured": {"colour": "blue", "is_warm": False},
        "tools": [WEATHER],
    }


@pytest.mark.slow
async def test_llama_index(run: Run, python: str) -> None:
    assert await run(python, "with_llama_index.py") == {"chat": TEXT, "stream": TEXT, "complete": TEXT}


async def test_the_official_client_for_python(door: RunningDoor) -> None:
    """What is not yet asked in tests/system/test_clients.py."""
    async with openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=ADMIN_KEY, max_retries=0) as client:
        vectors = await client.embeddings.create(model="fake", input=["a", "b"], encoding_format="float")
        response = await client.responses.create(model="fake", input="Hello")
        async with client.responses.stream(model="fake", input="Hello") as stream:
            streamed = (await stream.get_final_response()).output_text
        with pytest.raises(openai.BadRequestError):
            await client.embeddings.create(model="fake", input="")
    assert [len(vector.embedding) for vector in vectors.data] == [2, 2]
    assert (response.output_text, streamed) == (TEXT, TEXT)
