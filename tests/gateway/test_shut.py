"""No way leads through the door to what an engine should not be asked, however the path is spelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from backends.openai import OpenAIBackend
from tests.contracts.replay import ReplayServer, replaying
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor

# What engines answer to whoever reaches them: of vLLM, SGLang, llama.cpp, Ollama and our own.
_WORDS = """
/invocations /pooling /classify /score /v1/score /rerank /generative_scoring /tokenize /detokenize
/tokenizer_info /pause /resume /is_paused /sleep /wake_up /is_sleeping /reset_prefix_cache /reset_mm_cache
/collective_rpc /scale_elastic_ep /is_scaling_elastic_ep /update_weights /get_world_size /abort_requests /load
/version /ping /server_info /kv_event_sources /inference/v1/generate /v1/load_lora_adapter
/v1/unload_lora_adapter /v1/messages /v1/messages/count_tokens /v1/chat/completions/render
/v1/chat/completions/batch /v1/audio/transcriptions /v1/audio/speech /v1/images/generations /v1/realtime
/generate /generate_from_file /abort_request /flush_cache /pause_generation /continue_generation /encode
/get_server_info /get_model_info /model_info /v1/loads /get_load /health_generate /start_profile /stop_profile
/update_weights_from_disk /update_weights_from_distributed /update_weights_from_tensor
/init_weights_update_group /release_memory_occupation /resume_memory_occupation /slow_down /set_internal_state
/open_session /close_session /configure_logging /dump_expert_distribution_record /parse_function_call
/separate_reasoning /props /slots /slots/0?action=save /lora-adapters /completion /infill /apply-template
/embedding /models/load /api/pull /api/push /api/create /api/delete /api/copy /api/generate /api/chat
/api/tags /api/show /api/ps /api/embed /api/blobs/sha256:00 /api/version /shutdown /quit /docs /redoc
/openapi.json /health /internal/requests/1 /internal/cache
"""
DANGEROUS = _WORDS.split()

# How else a path may be spelled, for servers and proxies that tidy up.
SPELLINGS = (
    "{}",
    "//{}",
    "/v1/../{}",
    "/v1/models/../..{}",
    "/v1/models/%2e%2e/%2e%2e{}",
    "/v1/chat/completions/..%2f..{}",
    "/v1/chat/completions/../../{}",
    "/./{}",
    "{}/",
    "{};a=b",
    "{}%00",
    "/v1/files/..%5c..{}",
    "http://engine{}",
)
# What the door itself asks of an engine to know how it is.
PROBES = {"/v1/models", "/health", "/metrics"}


@pytest.fixture
async def engine() -> AsyncIterator[ReplayServer]:
    async with replaying() as server:
        yield server


@pytest.fixture
async def door(engine: ReplayServer, start_door: StartDoor) -> RunningDoor:
    return await start_door(OpenAIBackend("fake", engine.url, "engine-key"))


async def statuses(door: RunningDoor, method: str, paths: list[str]) -> list[int]:
    """Of each path, sent as it is spelled, by an administrator's key."""
    host, port = door.url.removeprefix("http://").split(":")
    found = []
    for path in paths:
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN_KEY}\r\nconnection: close\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        found.append(int((await reader.readline()).split()[1]))
        writer.close()
    return found


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_a_dangerous_path_reaches_an_engine(
    door: RunningDoor, engine: ReplayServer, spelling: str, method: str
) -> None:
    paths = [spelling.format(path) for path in DANGEROUS]
    found = dict(zip(paths, await statuses(door, method, paths), strict=True))
    assert {path: status for path, status in found.items() if status not in (400, 404, 405)} == {}
    assert engine.asked == []
    assert set(engine.got) <= PROBES


async def test_an_engine_sees_the_doors_credential_and_nothing_of_the_users_headers(
    door: RunningDoor, engine: ReplayServer
) -> None:
    headers = {
        "cookie": "session=secret",
        "x-api-key": "mine",
        "x-forwarded-for": "10.0.0.1",
        "x-request-id": "mine",
        "origin": "https://evil.example",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=secret",
        "proxy-authorization": "Basic mine",
        "te": "trailers",
        "x-sekisho-cache-salt": "theirs",
    }
    body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
    async with door.post(body, headers=headers) as response:
        assert response.status == 200
        request_id = response.headers["x-request-id"]
    (asked,) = engine.asked
    framing = {"host", "content-length", "accept", "accept-encoding", "content-type"}
    assert {name: value for name, value in asked.headers.items() if name not in framing} == {
        "authorization": "Bearer engine-key",
        "x-request-id": request_id,
    }
