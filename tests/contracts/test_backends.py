"""What every backend must do, run on every adapter: the real ones against a server that replays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends.base import Account, Backend, Load, ModelCard, Readiness, Upstream
from backends.errors import Broken, Rejected, Unreachable
from backends.fake import FakeBackend, Script, chat_script
from backends.native import NativeBackend
from backends.openai import OpenAIBackend
from backends.registry import create
from tests.contracts.replay import ReplayServer, replaying
from tests.gateway.conftest import eventually

PATH = "/v1/chat/completions"
REFUSED_STREAM = b'data: {"error": {"message": "queue full", "code": 503}}\n\ndata: [DONE]\n\n'


class Rig:
    """A backend and the engine behind it, which plays `script`."""

    def __init__(self, backend: Backend, engine: Any) -> None:
        self.backend = backend
        self.engine = engine

    def play(self, script: Script) -> None:
        if isinstance(self.engine, FakeBackend):
            self.engine.answer = lambda body: script
        else:
            self.engine.script = script

    async def open(self, body: bytes = b"{}", **headers: str) -> Upstream:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.backend.open(PATH, body, named)

    @property
    def asked(self) -> list[Any]:
        return list(self.engine.asked)


@pytest.fixture(params=["fake", "openai", "native", "sglang", "vllm", "llamacpp"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    if request.param == "fake":
        fake = FakeBackend()
        yield Rig(fake, fake)
        return
    socket = tmp_path / "engine.sock" if request.param == "native" else None
    async with replaying(socket) as server, contextlib.AsyncExitStack() as stack:
        backend = create(request.param, server.url)
        stack.push_async_callback(backend.aclose)
        yield Rig(backend, server)


@pytest.fixture
async def http_rig(tmp_path: Path) -> AsyncIterator[tuple[OpenAIBackend, ReplayServer]]:
    async with replaying(tmp_path / "engine.sock") as server:
        backend = OpenAIBackend("openai", server.url)
        yield backend, server
        await backend.aclose()


@contextlib.asynccontextmanager
async def closing(backend: NativeBackend) -> AsyncIterator[NativeBackend]:
    try:
        yield backend
    finally:
        await backend.aclose()


async def read(upstream: Upstream) -> bytes:
    try:
        return b"".join([chunk async for chunk in upstream.chunks()])
    finally:
        await upstream.aclose()


async def test_the_whole_answer_arrives(rig: Rig) -> None:
    script = chat_script(("a", "b", "c"))
    rig.play(script)
    assert await read(await rig.open()) == b"".join(step for step in script.steps if isinstance(step, bytes))


async def test_bytes_arrive_as_they_come(rig: Rig) -> None:
    rig.play(Script((b"data: 1\n\n", 5.0, b"data: 2\n\n")))
    upstream = await rig.open()
    async with asyncio.timeout(4):
        assert await anext(aiter(upstream.chunks())) == b"data: 1\n\n"
    await upstream.aclose()


async def test_an_error_status_is_raised_with_its_body(rig: Rig) -> None:
    rig.play(Script((b'{"detail":"no"}',), status=400, content_type="application/json"))
    with pytest.raises(Rejected) as caught:
        await rig.open()
    assert (caught.value.status, caught.value.body) == (400, b'{"detail":"no"}')


async def test_a_refusal_inside_a_stream_is_passed_on_for_the_door_to_read(rig: Rig) -> None:
    rig.play(Script((REFUSED_STREAM,)))
    assert await read(await rig.open()) == REFUSED_STREAM


async def test_a_stream_cut_in_the_middle_is_broken_and_not_an_end(rig: Rig) -> None:
    rig.play(Script((b"data: 1\n\n", 0.02, Broken("cut"))))
    upstream = await rig.open()
    chunks = aiter(upstream.chunks())
    assert await anext(chunks) == b"data: 1\n\n"
    with pytest.raises(Broken):
        await anext(chunks)
    await upstream.aclose()


async def test_closing_before_the_end_aborts_in_the_engine(rig: Rig) -> None:
    rig.play(Script((b"data: 1\n\n", 30.0, b"data: 2\n\n")))
    upstream = await rig.open()
    await anext(aiter(upstream.chunks()))
    await upstream.aclose()
    async with asyncio.timeout(4):
        await rig.asked[0].closed.wait()
    assert rig.asked[0].aborted


async def test_cancelling_while_the_status_is_awaited_aborts_in_the_engine(rig: Rig) -> None:
    rig.play(Script((b"x",), delay=30.0))
    opening = asyncio.create_task(rig.open())
    await eventually(lambda: rig.asked)
    opening.cancel()
    async with asyncio.timeout(4):
        await rig.asked[0].closed.wait()
    assert rig.asked[0].aborted


async def test_closing_twice_is_harmless(rig: Rig) -> None:
    upstream = await rig.open()
    await upstream.aclose()
    await upstream.aclose()


async def test_models_readiness_and_load_are_told(rig: Rig) -> None:
    assert await rig.backend.models() == [ModelCard("fake", 4096)]
    assert await rig.backend.readiness() is Readiness.READY
    assert (await rig.backend.load()).kv_use in (None, 0.0, 0.25)
    rig.engine.is_ready = False
    assert await rig.backend.readiness() is not Readiness.READY


async def test_a_large_body_arrives_whole(rig: Rig) -> None:
    text = "0123456789" * 300_000
    await read(await rig.open(msgspec.json.encode({"prompt": text})))
    assert msgspec.json.decode(rig.asked[0].body)["prompt"] == text


async def test_the_request_id_reaches_every_engine(rig: Rig) -> None:
    await read(await rig.open(x_request_id="abc"))
    fields = msgspec.json.decode(rig.asked[0].body)
    told = rig.asked[0].headers.get("x-request-id") or fields.get("request_id") or fields["rid"]
    assert told.startswith("abc")


async def test_only_our_own_engine_sees_the_cache_salt_and_the_class(rig: Rig) -> None:
    await read(await rig.open(x_sekisho_cache_salt="tenant", x_sekisho_class="batch"))
    for name in ("x-sekisho-cache-salt", "x-sekisho-class"):
        assert (name in rig.asked[0].headers) == (rig.backend.kind in ("native", "fake"))


async def test_the_native_engine_tells_its_load(tmp_path: Path) -> None:
    async with replaying(tmp_path / "engine.sock") as server:
        backend = NativeBackend("native", server.url)
        load = await backend.load()
        await backend.aclose()
    assert load == Load(3, 2, 0.25, kv_blocks_total=400, kv_blocks_free=300, block_size=16)
    assert load.kv_tokens == 6400


async def test_an_engine_without_metrics_tells_nothing_and_is_not_pestered(
    http_rig: tuple[OpenAIBackend, ReplayServer],
) -> None:
    backend, server = http_rig
    server.metrics = None
    assert [await backend.load() for _ in range(3)] == [Load()] * 3
    assert server.got == ["/metrics"]


async def test_an_account_that_no_engine_keeps_is_none(rig: Rig) -> None:
    assert await rig.backend.account("req_1") is None


async def test_the_native_engine_tells_what_a_request_has_cost(tmp_path: Path) -> None:
    async with replaying(tmp_path / "engine.sock") as server, closing(NativeBackend("native", server.url)) as backend:
        figures = b'"prompt_tokens":7,"completion_tokens":5,"cached_tokens":2'
        server.accounts = {
            "done": b'{"id":"done","state":"aborted",' + figures + b"}",
            "on": b'{"id":"on","state":"running",' + figures + b"}",
            "a%2Fb%20c": b'{"id":"a/b c","state":"finished",' + figures + b"}",
            "broken": b'{"state":"finished"}',
        }
        assert await backend.account("done") == Account(7, 5, 2, ended=True)
        assert await backend.account("on") == Account(7, 5, 2, ended=False)
        assert await backend.account("a/b c") == Account(7, 5, 2)
        with pytest.raises(Broken):
            await backend.account("broken")


async def test_an_engine_that_is_away_does_not_say_that_it_knows_no_request() -> None:
    async with closing(NativeBackend("native", "unix:/nonexistent/engine.sock")) as backend:
        with pytest.raises(Unreachable):
            await backend.account("req_1")


async def test_a_kept_alive_connection_that_died_is_tried_once_more(
    http_rig: tuple[OpenAIBackend, ReplayServer],
) -> None:
    backend, server = http_rig
    await read(await backend.open(PATH, b"{}", {}))
    server.die_before_answer = 1  # the kept-alive connection dies with the next request on it
    assert b"[DONE]" in await read(await backend.open(PATH, b"{}", {}))
    assert server.connections == 2


async def test_an_engine_that_closes_idle_connections_is_taken_in_stride(
    http_rig: tuple[OpenAIBackend, ReplayServer],
) -> None:
    backend, server = http_rig
    server.close_idle_after_answer = True
    for _ in range(20):
        assert b"[DONE]" in await read(await backend.open(PATH, b"{}", {}))


async def test_a_new_connection_that_dies_is_not_tried_again(http_rig: tuple[OpenAIBackend, ReplayServer]) -> None:
    backend, server = http_rig
    server.die_before_answer = 5
    with pytest.raises(Broken):
        await backend.open(PATH, b"{}", {})
    assert server.connections == 1


@pytest.mark.parametrize("url", ["unix:/nonexistent/engine.sock", "http://127.0.0.1:1"])
async def test_no_engine_is_unreachable(url: str) -> None:
    backend = OpenAIBackend("openai", url)
    with pytest.raises(Unreachable):
        await backend.open(PATH, b"{}", {})
    assert await backend.readiness() is Readiness.DOWN
    await backend.aclose()


async def test_a_complete_answer_gives_its_connection_back(http_rig: tuple[OpenAIBackend, ReplayServer]) -> None:
    backend, server = http_rig
    for _ in range(5):
        await read(await backend.open(PATH, b"{}", {}))
    assert server.connections == 1


@pytest.mark.parametrize(
    ("task", "refused"),
    [
        ("generate", {"/v1/embeddings"}),
        ("embed", {"/v1/chat/completions", "/v1/completions"}),
        (None, set()),
        (["embed"], set()),
    ],
)
async def test_our_own_engine_says_beforehand_what_its_model_does_not_do(
    task: object, refused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = NativeBackend("native", "unix:/nowhere/engine.sock")
    paths = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
    assert [path for path in paths if backend.refusal(path, {})] == []  # it has told nothing yet

    async def get(path: str) -> bytes:
        return msgspec.json.encode({"data": [{"id": "m", "task": task}]})

    monkeypatch.setattr(backend, "_get", get)
    await backend.models()
    assert {path for path in paths if backend.refusal(path, {})} == refused
    assert backend.refusal("/v1/rerank", {}) is not None
    if task == "embed":
        assert backend.refusal("/v1/embeddings", {"truncate_prompt_tokens": msgspec.Raw(b"-1")}) is not None
