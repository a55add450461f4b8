"""Four real engines differ in eighteen ways that a door has to know. Each is held here, as it was recorded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from backends.base import Options
from backends.errors import Rejected
from backends.openai import OpenAIBackend
from backends.wire.sse import EventParser
from gateway.errors import from_backend
from gateway.streaming.meter import Meter
from tests.contracts.recorded.recordings import exchange
from tests.contracts.recorded.rig import CHAT, COMPLETIONS, ask, asking, behind, refused
from tests.contracts.recorded.server import RecordedEngine, playing
from tests.gateway.conftest import StartDoor, error_of, eventually
from tests.gateway.test_disconnect import RawClient, usage

pytestmark = pytest.mark.usefixtures("lasting_engines")

ENGINES = ("llamacpp", "vllm", "sglang", "ollama")
every_engine = pytest.mark.parametrize("kind", ENGINES)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def named(kind: str) -> str:
    return "smollm2:latest" if kind == "ollama" else "smollm2"


def posts(engine: RecordedEngine, *paths: str) -> list[Any]:
    """What the engine was asked to generate."""
    return [asked for asked in engine.asked if asked.path in (paths or (CHAT, COMPLETIONS, "/api/chat"))]


@pytest.mark.parametrize(
    ("path", "recording"),
    [(CHAT, "30-queue-full-stream"), (COMPLETIONS, "30-queue-full-completions-stream")],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_inside_a_stream_is_a_503_although_the_engine_said_200(
    start_door: StartDoor, path: str, recording: str, stream: bool
) -> None:
    """1: SGLang with a full queue. Busy, with a time to come back, and not broken."""
    prompt = {"prompt": "a"} if path == COMPLETIONS else {"messages": asking()["messages"]}
    async with behind("sglang") as (backend, engine):
        door = await start_door(backend)
        engine.play(recording)
        async with door.post({"model": "smollm2", "stream": stream, **prompt}, path) as response:
            error = await error_of(response, 503)
            assert response.headers["retry-after"] == "5"
        assert posts(engine)[0].played == recording
        assert exchange("sglang", recording).status == 200
        assert error["message"] == "The request queue is full."
        await eventually(lambda: usage(door) == {"requests": 1, "failed": 1})


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "sglang"])
async def test_every_shape_of_error_becomes_the_official_one(start_door: StartDoor, kind: str) -> None:
    """2: nested, flat, a bare string, `detail`, plain text."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend)
        engine.play("17-prompt-too-long")
        async with door.post(asking()) as response:
            error = await error_of(response, 400, "context_length_exceeded")
            assert error["type"] == "invalid_request_error"
        engine.play("31-no-key")
        async with door.post(asking()) as response:
            error = await error_of(response, 502)
            assert "gateway's credential" in error["message"]  # and not the user's key


async def test_nothing_of_the_engines_machine_reaches_a_user(start_door: StartDoor) -> None:
    """3: SGLang's validation errors name a file and a line, and repeat the input."""
    async with behind("sglang") as (backend, engine):
        door = await start_door(backend)
        engine.play("18-invalid-json")
        async with door.post(asking()) as response:
            error = await error_of(response, 400)
    assert b"line 1870" in exchange("sglang", "18-invalid-json").body
    assert error["message"] == "JSON decode error"


async def test_a_clients_mistake_that_the_engine_calls_its_own_is_a_400(start_door: StartDoor) -> None:
    """4: an image for a text model in llama.cpp, a JSON array in SGLang. (Ollama's are in test_ollama.py.)"""
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    async with behind("llamacpp", Options(images=True)) as (backend, engine):
        engine.play("23-content-image")
        with pytest.raises(Rejected) as caught:
            await ask(backend, messages=image)
    assert exchange("llamacpp", "23-content-image").status == 500
    assert from_backend(caught.value).status == 400
    async with behind("sglang") as (backend, engine):
        door = await start_door(backend)
        async with door.post([1, 2]) as response:
            await error_of(response, 400)
        assert posts(engine) == []


@every_engine
async def test_a_client_that_leaves_frees_the_engine_though_it_asked_for_no_stream(
    start_door: StartDoor, kind: str
) -> None:
    """5: without a stream llama.cpp goes on to the end, and SGLang for seconds; so the engine always streams."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend)
        engine.hold_after = 2
        client = await RawClient.connect(door)
        client.send(json.dumps(asking(model=named(kind))).encode())
        await eventually(lambda: posts(engine))
        client.leave()
        await eventually(lambda: posts(engine)[0].aborted)
        assert posts(engine)[0].fields["stream"] is True


@pytest.mark.parametrize("kind", ["llamacpp", "sglang"])
async def test_who_leaves_the_line_has_held_no_place_in_the_engines_own(start_door: StartDoor, kind: str) -> None:
    """6: a queued client that leaves keeps its place there until a slot is free, so nobody queues there."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend, max_concurrency=1)
        engine.hold_after = 1
        staying, leaving = [await RawClient.connect(door) for _ in range(2)]
        staying.send(json.dumps(asking(stream=True)).encode())
        await eventually(lambda: posts(engine))
        leaving.send(json.dumps(asking(stream=True)).encode())
        await asyncio.sleep(0.1)
        leaving.leave()
        staying.leave()
        await eventually(lambda: posts(engine)[0].aborted)
        await asyncio.sleep(0.1)
        assert len(posts(engine)) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_status_is_believed_only_when_content_follows(start_door: StartDoor, stream: bool) -> None:
    """7: vLLM says 200 at once, even to who is only queued."""
    async with behind("vllm") as (backend, engine):
        door = await start_door(backend, first_token_timeout=0.3)
        engine.play("30-queued-stream")
        engine.hold_after = 0
        async with door.post(asking(stream=stream)) as response:
            await error_of(response, 504)


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_an_engine_that_refuses_nobody_is_given_no_more_than_it_runs(start_door: StartDoor, kind: str) -> None:
    """8: llama.cpp and vLLM queue without bound; the line is the door's."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend, max_concurrency=2)
        engine.hold_after = 1
        clients = [await RawClient.connect(door) for _ in range(6)]
        for client in clients:
            client.send(json.dumps(asking(stream=True)).encode())
        await eventually(lambda: len(posts(engine)) == 2)
        await asyncio.sleep(0.1)
        assert len(posts(engine)) == 2
        for client in clients:
            client.leave()


async def test_priority_runs_the_way_of_each_engine_and_is_nobodys_to_ask_for(start_door: StartDoor) -> None:
    """9: vLLM serves the lowest number first, SGLang the highest; unasked, neither is told one."""
    told = {}
    for kind in ("vllm", "sglang"):
        async with behind(kind, Options(priority=True)) as (backend, engine):
            for name in ("interactive", "api", "batch"):
                await ask(backend, headers={"x-sekisho-class": name})
            told[kind] = [asked.fields["priority"] for asked in engine.asked]
        async with behind(kind) as (backend, engine):
            await ask(backend, headers={"x-sekisho-class": "interactive"})
            assert "priority" not in engine.asked[0].fields
            door = await start_door(backend)
            async with door.post(asking(priority=0)) as response:
                assert (await error_of(response, 400))["param"] == "priority"
    assert told["vllm"] == sorted(set(told["vllm"]))
    assert told["sglang"] == sorted(set(told["sglang"]), reverse=True)


async def test_figures_that_are_stale_are_not_trusted() -> None:
    """10: with one request running and two queued, SGLang said that there was none."""
    async with behind("sglang") as (backend, engine):
        engine.play("30-queue-full-v1-loads")
        load = await backend.load()
        assert (load.running, load.waiting, backend.trusts_load) == (0, 0, False)
    for kind, running in (("llamacpp", 2), ("vllm", 4)):
        async with behind(kind) as (backend, engine):
            engine.play("27-metrics-under-load")
            assert ((await backend.load()).running, backend.trusts_load) == (running, True)


async def test_a_health_check_that_takes_a_second_is_asked_for_seldom() -> None:
    """11: and nothing but a look at its readiness asks for it."""
    async with behind("sglang") as (backend, engine):
        await backend.models()
        await backend.load()
        await ask(backend)
        assert "/health" not in {asked.path for asked in engine.asked}
        await backend.readiness()
        assert [asked.path for asked in engine.asked].count("/health") == 1
        assert isinstance(backend, OpenAIBackend)
        assert backend.probe_seconds > 2 * OpenAIBackend.probe_seconds
        assert backend.patience > 5  # of what took 1.0 s, idle or busy


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("llamacpp", "tools", TOOLS),
        ("llamacpp", "min_tokens", 3),
        ("sglang", "tools", TOOLS),
        ("sglang", "bad_words", ["no"]),
        ("vllm", "functions", [{"name": "f"}]),
        ("ollama", "n", 2),
        ("ollama", "logit_bias", {"5": 1}),
    ],
)
async def test_what_an_engine_would_ignore_is_refused_by_name(kind: str, field: str, value: object) -> None:
    """12: fields ignored in silence. Those that have another name there are told under it."""
    async with behind(kind) as (backend, _):
        await backend.models()
        refusal = refused(backend, **asking(model=named(kind)), **{field: value})
    assert refusal is not None
    assert refusal.param == field


async def test_what_is_refused_is_not_sent(start_door: StartDoor) -> None:
    """12: the user is told at the door, and the engine does no work for it."""
    async with behind("llamacpp") as (backend, engine):
        door = await start_door(backend)
        async with door.post(asking(tools=TOOLS, tool_choice="required")) as response:
            assert (await error_of(response, 400, "unsupported_parameter"))["param"] == "tools"
        assert posts(engine) == []


async def test_a_limit_under_its_newer_name_is_a_limit_in_ollama_too() -> None:
    """12: Ollama ignores `max_completion_tokens`, and would write on and on."""
    async with behind("ollama") as (backend, engine):
        await ask(backend, model="smollm2:latest", max_completion_tokens=5)
        assert posts(engine)[0].fields["options"]["num_predict"] == 5


async def test_a_field_that_an_engine_has_given_up_is_unknown_to_the_door(start_door: StartDoor) -> None:
    """12: vLLM ignores the old `guided_json`."""
    async with behind("vllm") as (backend, engine):
        door = await start_door(backend)
        async with door.post(asking(guided_json={"type": "object"})) as response:
            assert (await error_of(response, 400, "unknown_parameter"))["param"] == "guided_json"
        assert posts(engine) == []


@pytest.mark.parametrize(
    ("kind", "recording"),
    [
        ("llamacpp", "17-prompt-too-long"),
        ("vllm", "17-prompt-too-long"),
        ("sglang", "17-prompt-too-long"),
        ("ollama", "41-prompt-longer-than-num-ctx"),
    ],
)
async def test_a_prompt_that_is_too_long_is_refused_and_never_cut(
    start_door: StartDoor, kind: str, recording: str
) -> None:
    """13: Ollama cuts it in silence and says 200."""
    messages = exchange("llamacpp", "17-prompt-too-long").asked["messages"]
    async with behind(kind, Options(num_ctx=2048)) as (backend, engine):
        door = await start_door(backend)
        engine.play(recording)
        async with door.post(asking(model=named(kind), messages=messages)) as response:
            await error_of(response, 400, "context_length_exceeded")
    assert exchange(kind, recording).status == (200 if kind == "ollama" else 400)


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "sglang"])
async def test_nobody_asks_for_a_thousand_answers_at_once(start_door: StartDoor, kind: str) -> None:
    """14: vLLM and SGLang would answer them all, by choices or by prompts."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend)
        async with door.post(asking(n=1000)) as response:
            assert (await error_of(response, 400))["param"] == "n"
        assert posts(engine) == []
        assert (refused(backend, n=1000) or ("", ""))[1] == "n"
        assert (refused(backend, COMPLETIONS, prompt=["a"] * 1000) or ("", ""))[1] == "prompt"


@every_engine
async def test_a_model_that_is_not_there_is_served_by_no_other(start_door: StartDoor, kind: str) -> None:
    """15: llama.cpp and SGLang answer for any name, SGLang under that name, and for none at all."""
    async with behind(kind) as (backend, engine):
        door = await start_door(backend)
        async with door.post(asking(model="no-such-model")) as response:
            await error_of(response, 404, "model_not_found")
        async with door.post({"messages": asking()["messages"]}) as response:
            assert (await error_of(response, 400))["param"] == "model"
        assert posts(engine) == []


@pytest.mark.parametrize(
    "path",
    ["/invocations", "/tokenize", "/detokenize", "/load", "/scale_elastic_ep", "/v1/../invocations", "//invocations"],
)
async def test_what_an_engine_leaves_open_is_shut(start_door: StartDoor, path: str) -> None:
    """16: vLLM answers a whole chat on /invocations to who has no key."""
    async with behind("vllm") as (backend, engine):
        door = await start_door(backend)
        for method in ("POST", "GET"):
            client = await RawClient.connect(door)
            client.writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
            assert (await client.reader.readline()).split()[1] in (b"401", b"404")
            client.leave()
    # The door's own looks, and nothing else.
    assert {asked.path for asked in engine.asked} <= {"/v1/models", "/health", "/metrics"}


@every_engine
async def test_an_engine_sees_the_doors_credential_and_nothing_of_the_users(start_door: StartDoor, kind: str) -> None:
    """16: an Origin would be echoed by some, and refused by others."""
    users = {"origin": "https://evil.example", "cookie": "a=b", "x-api-key": "mine", "priority": "0"}
    async with behind(kind) as (backend, engine):
        door = await start_door(backend)
        async with door.post(asking(model=named(kind), stream=True), headers=users) as response:
            await response.read()
        asked = posts(engine)[0]
    assert not users.keys() & asked.headers.keys()
    assert asked.headers["authorization"] == "Bearer a-key"


@pytest.mark.parametrize(
    ("kind", "owner"),
    [("llamacpp", "llamacpp"), ("vllm", "vllm"), ("sglang", "sglang"), ("ollama", "library")],
)
async def test_an_engine_is_known_by_who_owns_its_models(kind: str, owner: str) -> None:
    """17: SGLang and llama.cpp have some of Ollama's endpoints too."""
    async with playing(kind) as engine:
        backend = OpenAIBackend("any", engine.url)
        cards = await backend.models()
        await backend.aclose()
    assert {card.owned_by for card in cards} == {owner}


@pytest.mark.parametrize(
    ("kind", "recording", "counted", "least"),
    [
        ("llamacpp", "07-n2-stream", 8, 13),  # one choice of the two
        ("vllm", "07-n2-stream", 16, 16),
        ("sglang", "07-n2-stream", 16, 16),
        ("ollama", "14-completion-stream", 12, 12),  # with zeros in all chunks but the last
    ],
)
async def test_a_count_that_is_too_low_is_not_believed(kind: str, recording: str, counted: int, least: int) -> None:
    """18: what came is the least that was said."""
    meter, told = Meter(), 0
    for event in EventParser().feed(exchange(kind, recording).body):
        meter.observe(event.data)
        usage = {} if event.is_done else json.loads(event.data).get("usage") or {}
        told = max(told, usage.get("completion_tokens", 0))
    assert meter.complete
    assert told == counted
    assert meter.completion_tokens >= least


async def test_two_choices_are_booked_as_two(start_door: StartDoor) -> None:
    """18: llama.cpp says twice what one of them cost."""
    async with behind("llamacpp") as (backend, _):
        door = await start_door(backend)
        async with door.post(asking(n=2)) as response:
            answer = await response.json()
        assert len(answer["choices"]) == 2
        assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (37, 16)
        await eventually(lambda: usage(door).get("completion_tokens") == 16)
        assert usage(door)["prompt_tokens"] == 37
