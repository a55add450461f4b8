"""/v1/embeddings on a whole model of a few kilobytes, driven through ASGI without a socket."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.gauges import load_of
from backends.telemetry.otlp import open_tracing
from native_engine import embedder as embedder_module
from native_engine.config import EngineConfig
from native_engine.embedder import Embedder, Vector
from native_engine.encoder import Encoder, load_encoder
from native_engine.loading.text_encoder import TextEncoder
from native_engine.server.app import App
from native_engine.server.service import EmbeddingService
from tests.collector import collecting
from tests.native_engine.server.conftest import Answer, Bench, Client
from tests.native_engine.tiny_encoder import CLS, HIDDEN, LONGEST, SEP, WORDS, write_encoder

MODEL = "tiny-encoder"


class GatedEncoder(Encoder):
    """With `gated` each batch waits for `gate`."""

    gated = False
    fails = False

    def encode(self, inputs: list[list[int]]) -> Vector:
        self.seen.append(inputs)
        if self.gated:
            assert self.gate.acquire(timeout=10)
        if self.fails:
            raise RuntimeError("the arithmetic failed, as the test wanted")
        return super().encode(inputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("model") / "m")


class Place:
    """One server and its encoder."""

    def __init__(self, folder: Path) -> None:
        config = EngineConfig(model="any", num_threads=1, max_num_seqs=4, max_num_batched_tokens=32)
        loaded = load_encoder(config, folder)
        self.encoder = GatedEncoder(loaded.config, loaded.model, loaded.max_model_len)
        self.encoder.gate, self.encoder.seen = threading.Semaphore(0), []  # type: ignore[attr-defined]
        self.service = EmbeddingService(MODEL, Embedder(self.encoder, config), TextEncoder(folder))
        self.service.worker.start()
        self.client = Client(App(self.service))

    async def embed(self, given: Any, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        return await self.client.post("/v1/embeddings", {"model": MODEL, "input": given, **fields}, headers)

    async def vectors(self, given: Any, **fields: Any) -> Vector:
        answer = await self.embed(given, **fields)
        assert answer.status == 200, answer.body
        assert [one["index"] for one in answer.json["data"]] == list(range(len(answer.json["data"])))
        return np.array([one["embedding"] for one in answer.json["data"]], np.float32)

    async def until_begun(self) -> None:
        async with asyncio.timeout(10):
            while not self.encoder.seen:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.002)


@pytest.fixture
async def place(folder: Path) -> AsyncIterator[Place]:
    made = Place(folder)
    yield made
    made.encoder.gated = False
    made.encoder.gate.release(1000)  # type: ignore[attr-defined]
    await made.service.drain(0)


async def test_every_form_of_input_gives_the_same_vectors_in_order(place: Place) -> None:
    texts = ["the sea", "海は青い", "cold", "the sea is blue and cold", "sea", "blue"]
    ids = [place.service.texts.encode(text) for text in texts]
    many = await place.vectors(texts)
    assert many.shape == (6, HIDDEN)
    assert np.array_equal(await place.vectors(ids), many)
    assert np.abs((await place.vectors(texts[1]))[0] - many[1]).max() < 1e-6
    assert np.abs((await place.vectors(ids[3]))[0] - many[3]).max() < 1e-6
    assert np.abs(np.linalg.norm(many, axis=1) - 1).max() < 1e-5


async def test_the_answer_is_the_official_object(place: Place) -> None:
    answer = (await place.embed(["the sea", "cold"])).json
    assert (answer["object"], answer["model"]) == ("list", MODEL)
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert {one["object"] for one in answer["data"]} == {"embedding"}


async def test_base64_is_little_endian_float32(place: Place) -> None:
    plain = await place.vectors("the sea")
    answer = await place.embed("the sea", encoding_format="base64")
    packed = base64.b64decode(answer.json["data"][0]["embedding"])
    assert np.array_equal(np.frombuffer(packed, "<f4"), plain[0])


async def test_fewer_dimensions_are_cut_and_made_of_length_one_again(place: Place) -> None:
    (whole,), (cut,) = await place.vectors("the sea"), await place.vectors("the sea", dimensions=8)
    assert np.abs(cut - whole[:8] / np.linalg.norm(whole[:8])).max() < 1e-6
    assert np.array_equal((await place.vectors("the sea", dimensions=HIDDEN))[0], whole)


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        ({"input": ["sea", "sea " * 20]}, f"{LONGEST} tokens. However, input 1 has 22 tokens", "input"),
        ({"input": [CLS] * 17}, f"{LONGEST} tokens. However, input 0 has 17 tokens", "input"),
        ({"input": [[CLS, len(WORDS), SEP]]}, f"token id {len(WORDS)}, but this model knows {len(WORDS)}", "input"),
        ({"dimensions": HIDDEN + 1}, f"'dimensions' is {HIDDEN + 1}, but the vectors of this model have", "dimensions"),
        ({"truncate_prompt_tokens": 4}, "it cuts no input", "truncate_prompt_tokens"),
    ],
)
async def test_what_cannot_be_done_is_said_with_the_numbers(
    place: Place, fields: dict[str, Any], message: str, param: str
) -> None:
    answer = await place.client.post("/v1/embeddings", {"model": MODEL, "input": "sea", **fields})
    assert (answer.status, answer.json["error"]["param"]) == (400, param)
    assert message in answer.json["error"]["message"]
    assert place.encoder.seen == []  # type: ignore[attr-defined]


async def test_an_input_of_just_the_longest_length_is_taken(place: Place) -> None:
    assert (await place.embed("sea " * (LONGEST - 2))).status == 200
    assert (await place.embed("sea", model="other")).status == 404


async def test_models_health_and_metrics_are_as_of_every_engine(place: Place) -> None:
    await place.embed(["the sea", "cold"], {"x-request-id": "mine"})
    (entry,) = (await place.client.get("/v1/models")).json["data"]
    assert (entry["id"], entry["max_model_len"], entry["task"]) == (MODEL, LONGEST, "embed")
    assert (await place.client.get("/health")).status == 200
    metrics = (await place.client.get("/metrics")).body
    assert (load_of(metrics).running, load_of(metrics).waiting) == (0, 0)
    assert f'sekisho_engine_prompt_tokens_total{{model_name="{MODEL}"}} 7' in metrics.decode()
    account = (await place.client.get("/internal/requests/mine")).json
    assert (account["state"], account["prompt_tokens"], account["completion_tokens"]) == ("finished", 7, 0)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
async def test_a_model_of_embeddings_generates_nothing(place: Place, path: str) -> None:
    answer = await place.client.post(path, {"model": MODEL, "prompt": "the sea"})
    assert (answer.status, answer.json["error"]["code"]) == (400, "unsupported_model")
    assert "use /v1/embeddings" in answer.json["error"]["message"]


async def test_a_model_that_generates_makes_no_embeddings(bench: Bench) -> None:
    answer = await bench.client.post("/v1/embeddings", {"model": "tiny", "input": "the sea"})
    assert (answer.status, answer.json["error"]["code"]) == (400, "unsupported_model")
    assert "makes no embeddings" in answer.json["error"]["message"]
    assert (await bench.client.get("/v1/models")).json["data"][0]["task"] == "generate"


async def test_a_client_that_leaves_ends_its_work_between_batches(place: Place) -> None:
    place.encoder.gated = True
    body = b'{"model":"tiny-encoder","input":[' + b",".join([b'"the sea"'] * 100) + b"]}"
    answer, leave = place.client.open("POST", "/v1/embeddings", body, {"x-request-id": "mine"})
    await place.until_begun()
    leave()
    assert (await asyncio.wait_for(answer, 10)).status == 0
    assert (await place.client.get("/internal/requests/mine")).json["state"] == "aborted"
    place.encoder.gated = False
    place.encoder.gate.release()  # type: ignore[attr-defined]
    await place.vectors("cold")
    assert len(place.encoder.seen) == 2  # type: ignore[attr-defined]


async def test_a_failed_batch_is_an_error_and_the_server_goes_on(place: Place) -> None:
    place.encoder.fails = True
    assert (await place.embed("the sea")).status == 500
    place.encoder.fails = False
    assert (await place.embed("the sea")).status == 200


async def test_the_event_loop_answers_while_a_batch_is_computed(place: Place) -> None:
    place.encoder.gated = True
    asked = asyncio.ensure_future(place.embed("the sea"))
    await place.until_begun()
    assert (await place.client.get("/health")).status == 200
    place.encoder.gate.release()  # type: ignore[attr-defined]
    assert (await asked).status == 200


async def test_a_full_queue_says_when_to_come_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder_module, "MAX_QUEUED_INPUTS", 3)
    place.encoder.gated = True
    first = asyncio.ensure_future(place.embed("the sea"))
    await place.until_begun()
    second = asyncio.ensure_future(place.embed(["sea", "cold"]))
    await asyncio.sleep(0.05)
    full = await place.embed(["sea", "cold"])
    assert (full.status, full.headers["retry-after"]) == (503, "1")
    assert "2 inputs are waiting" in full.json["error"]["message"]
    place.encoder.gate.release(10)  # type: ignore[attr-defined]
    assert [(await first).status, (await second).status] == [200, 200]


async def test_a_request_is_a_span_without_stages_in_its_callers_trace(place: Place) -> None:
    async with collecting() as collector:
        place.service.tracing = open_tracing("sekisho-engine", collector.url)
        caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        answer = await place.embed(["the sea", "cold"], {"traceparent": caller, "x-request-id": "asked-1"})
        await asyncio.to_thread(place.service.tracing.close)
    (span,) = collector.spans
    assert (span.name, span.trace_id, span.parent) == ("llm_request", caller[3:35], caller[36:52])
    told = {name.removeprefix("gen_ai."): value for name, value in span.attributes.items()}
    assert (told["operation.name"], told["request.id"]) == ("embeddings", "asked-1")
    assert told["usage.input_tokens"] == answer.json["usage"]["prompt_tokens"]
    assert "latency.time_in_queue" not in told
    assert not span.failed
