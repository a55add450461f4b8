"""The engine's process from outside: start, readiness, signals, stale sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from backends.native import NativeBackend
from native_engine.config import EngineConfig
from native_engine.loading.errors import ModelError
from native_engine.server.serve import StartRefused, default_name, serve_engine
from native_engine.server.sockets import CannotListen, bind_tcp, bind_unix

REPOSITORY = Path(__file__).parents[3]


class Process:
    def __init__(self, model: Path, data: Path, uds: Path, load_seconds: float = 0.0, outcome: str = "works") -> None:
        self.uds = uds
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.native_engine.server.process", model, data, uds, str(load_seconds), outcome],
            cwd=REPOSITORY,
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = 60) -> tuple[int, str]:
        _, said = self._process.communicate(timeout=seconds)
        return self._process.returncode, said

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


@pytest.fixture
def uds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "e.sock"


@pytest.fixture
def start(tiny_gguf: Path, tmp_path: Path, uds: Path) -> Iterator[Any]:
    started: list[Process] = []

    def run(**options: Any) -> Process:
        started.append(Process(tiny_gguf, tmp_path, uds, **options))
        return started[-1]

    yield run
    for process in started:
        process.kill()


@pytest.fixture
async def http(uds: Path) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(uds))) as session:
        yield session


async def status(http: aiohttp.ClientSession) -> int:
    """Of /health; 0 while nobody listens."""
    try:
        async with http.get("/health") as answer:
            return answer.status
    except aiohttp.ClientError:
        return 0


async def until(http: aiohttp.ClientSession, wanted: int, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while await status(http) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _exists(path: Path) -> bool:
    return path.exists()


CHAT = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "x"}]}


def deltas(body: bytes) -> str:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: {")]
    return "".join(
        choice["delta"].get("content", "") for line in lines for choice in json.loads(line).get("choices", [])
    )


@pytest.mark.system
async def test_it_says_503_while_loading_then_serves_and_drains_on_sigterm(start: Any, http: Any, uds: Path) -> None:
    process = start(load_seconds=0.5)
    await until(http, 503)
    await until(http, 200)
    assert stat.S_IMODE(os.stat(uds).st_mode) == 0o600
    async with http.post("/v1/chat/completions", json=CHAT) as answer:
        body = await answer.content.readuntil(b"\n\n")
        process.signal(signal.SIGTERM)
        await until(http, 503)
        body += await answer.content.read()
    assert deltas(body) == "hello " * 40
    assert body.endswith(b"data: [DONE]\n\n")
    code, said = process.wait()
    assert code == 0, said
    assert not _exists(uds)


@pytest.mark.system
async def test_a_second_signal_cuts_streams_off_with_an_error(start: Any, http: Any) -> None:
    process = start()
    await until(http, 200)
    async with http.post("/v1/chat/completions", json=CHAT) as answer:
        await answer.content.readuntil(b"\n\n")
        process.signal(signal.SIGINT)
        await until(http, 503)
        process.signal(signal.SIGINT)
        started = time.monotonic()
        body = await answer.content.read()
    assert b'"unavailable_error"' in body
    assert process.wait()[0] == 0
    assert time.monotonic() - started < 15


async def running(http: aiohttp.ClientSession) -> int:
    async with http.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return int(next(line for line in lines if line.startswith("sekisho_engine_num_requests_running")).split()[-1])


@pytest.mark.system
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_place_within_a_step(
    start: Any, http: Any, uds: Path, stream: bool
) -> None:
    start()
    await until(http, 200)
    async with aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(uds))) as leaving:
        request = asyncio.ensure_future(leaving.post("/v1/chat/completions", json=CHAT | {"stream": stream}))
        await asyncio.sleep(0.2)
        assert await running(http) == 1
        if stream:
            (await request).close()
        else:
            request.cancel()
    await asyncio.sleep(0.1)
    assert await running(http) == 0


@pytest.mark.system
async def test_a_signal_while_loading_ends_the_process_at_once(start: Any, http: Any) -> None:
    process = start(load_seconds=600)
    await until(http, 503)
    process.signal(signal.SIGTERM)
    assert process.wait()[0] == 0


@pytest.mark.system
async def test_a_model_that_cannot_be_loaded_ends_the_process_with_the_reason(start: Any) -> None:
    code, said = start(outcome="fail").wait()
    assert code == 1
    assert "the model cannot be loaded, as the test wanted" in said


@pytest.mark.system
async def test_a_socket_left_by_a_crash_is_replaced_but_not_a_living_ones(start: Any, http: Any, uds: Path) -> None:
    crashed = start()
    await until(http, 200)
    crashed.kill()
    assert _exists(uds)
    start()
    await until(http, 200)
    with pytest.raises(CannotListen, match="another engine is listening"):
        bind_unix(uds)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} on 127.0.0.1 is in use"):
            bind_tcp("127.0.0.1", port)


def test_a_socket_path_that_cannot_be_is_told_before_it_is_tried(tmp_path: Path, uds: Path) -> None:
    with pytest.raises(CannotListen, match="too long"):
        bind_unix(tmp_path / ("x" * 120))
    uds.write_text("not a socket")
    with pytest.raises(CannotListen, match="is not a socket"):
        bind_unix(uds)


def test_settings_that_cannot_be_are_refused_all_at_once(tmp_path: Path) -> None:
    config = EngineConfig(model="tiny", max_num_seqs=0, block_size=8)
    with pytest.raises(StartRefused) as refused:
        serve_engine(config, data_dir=tmp_path)
    assert len(str(refused.value).splitlines()) == 3


def test_an_unknown_model_is_refused_before_anything_listens(tmp_path: Path, uds: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        serve_engine(EngineConfig(model="gpt-9"), data_dir=tmp_path, uds=uds)
    assert not uds.exists()


def test_a_local_model_is_called_by_its_file_name(tiny_gguf: Path, tmp_path: Path) -> None:
    assert default_name(str(tiny_gguf), tiny_gguf, tmp_path) == "tiny"


@pytest.mark.system
async def test_the_door_learns_what_a_request_has_cost_whose_reader_was_lost(start: Any, http: Any, uds: Path) -> None:
    start()
    await until(http, 200)
    backend = NativeBackend("native", f"unix:{uds}")
    upstream = await backend.open("/v1/chat/completions", json.dumps(CHAT).encode(), {"x-request-id": "lost/1"})
    chunks = aiter(upstream.chunks())
    body = b"".join([await anext(chunks) for _ in range(5)])
    under_way = await backend.account("lost/1")
    assert under_way is not None
    assert not under_way.ended
    await upstream.aclose()
    async with asyncio.timeout(30):
        while not (account := await backend.account("lost/1")) or not account.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert account.prompt_tokens == under_way.prompt_tokens > 0
    assert len(deltas(body).split()) <= account.completion_tokens < 40
    await backend.aclose()
