"""A model in two processes: one of them dies, the engine comes back; it stops and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.native_engine.tiny_model import write_gguf
from tests.processes import is_running
from tests.system.driving import eventually
from tests.system.engines import Engine

pytestmark = pytest.mark.slow

LONG = {"model": "tiny", "prompt": "hello world", "max_tokens": 250, "temperature": 0, "ignore_eos": True}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    model = write_gguf(tmp_path / "tiny.gguf")
    made = Engine("ranks", tmp_path, tmp_path / "data", str(model), "--tensor-parallel-size", "2")
    made.start()
    yield made
    if made.runs:
        made.kill()


def ranks(engine: Engine) -> list[int]:
    """In the order of their numbers."""
    children = psutil.Process(engine.process.pid).children()
    return [each.pid for each in sorted(children, key=lambda each: int(each.environ()["RANK"]))]


async def ask(engine: Engine, **more: Any) -> str:
    async with engine.client() as client, client.post("/v1/completions", json=LONG | more) as response:
        return await response.text()


def assert_gone(pids: list[int]) -> None:
    eventually(lambda: not any(map(is_running, pids)), 10, lambda: f"still running: {pids}")


async def test_a_rank_that_dies_ends_what_is_answered_and_the_engine_comes_back(engine: Engine) -> None:
    await engine.ready()
    first, before = await ask(engine, max_tokens=8), ranks(engine)
    streaming = asyncio.create_task(ask(engine, stream=True))
    await asyncio.sleep(0.1)
    os.kill(before[1], signal.SIGKILL)
    assert '"code":"engine_error"' in await asyncio.wait_for(streaming, 20)
    await asyncio.to_thread(assert_gone, before)
    await engine.ready()
    assert text_of(await ask(engine, max_tokens=8)) == text_of(first)

    streaming = asyncio.create_task(ask(engine, stream=True))
    await asyncio.sleep(0.1)
    after = ranks(engine)
    engine.signal(signal.SIGTERM)
    assert (await asyncio.wait_for(streaming, 20)).endswith("data: [DONE]\n\n")
    assert await asyncio.to_thread(engine.process.wait, 20) == 0
    assert len(before) == len(after) == 2
    await asyncio.to_thread(assert_gone, after)
    assert not engine.socket.exists()


async def test_ranks_end_with_their_launcher_even_where_that_is_killed(engine: Engine) -> None:
    await engine.ready()
    left = ranks(engine)
    engine.kill()
    await asyncio.to_thread(assert_gone, left)


def text_of(answer: str) -> str:
    return answer[answer.index('"choices"') :]
