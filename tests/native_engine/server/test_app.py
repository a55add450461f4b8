from __future__ import annotations

import asyncio

import pytest

from backends.gauges import parse
from native_engine.server.app import ROUTES, App
from tests.native_engine.server.conftest import CONTEXT, MODEL, Bench, Client


@pytest.mark.parametrize("path", [*ROUTES, "/health"])
async def test_every_path_says_503_while_the_model_is_loading(path: str) -> None:
    method = ROUTES.get(path, ("GET", None))[0]
    answer = await Client(App()).request(method, path, b"{}")
    assert (answer.status, answer.json["error"]["message"]) == (503, "The model is loading.")
    assert answer.headers["retry-after"] == "1"


async def test_health_is_ok_once_there_is_a_model(bench: Bench) -> None:
    answer = await bench.client.get("/health")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_unknown_paths_and_wrong_methods_have_openai_errors(bench: Bench) -> None:
    missing = await bench.client.get("/v1/rerank")
    wrong = await bench.client.get("/v1/chat/completions")
    assert (missing.status, missing.json["error"]["code"]) == (404, "unknown_url")
    assert (wrong.status, wrong.json["error"]["code"]) == (405, "method_not_allowed")


async def test_models_tells_the_context_of_one_request(bench: Bench) -> None:
    (entry,) = (await bench.client.get("/v1/models")).json["data"]
    assert (entry["id"], entry["max_model_len"], entry["owned_by"]) == (MODEL, CONTEXT, "sekisho")


async def test_metrics_count_what_was_done(bench: Bench) -> None:
    bench.say("hello")
    await bench.client.chat()
    text = (await bench.client.get("/metrics")).body.decode()
    assert f'sekisho_engine_num_requests_running{{model_name="{MODEL}"}} 0' in text
    assert f'sekisho_engine_request_success_total{{model_name="{MODEL}",finished_reason="stop"}} 1' in text
    assert f'sekisho_engine_time_to_first_token_seconds_count{{model_name="{MODEL}"}} 1' in text
    assert f'sekisho_engine_generation_tokens_total{{model_name="{MODEL}"}} 2' in text


async def test_metrics_tell_what_the_door_needs_to_know_of_load(bench: Bench) -> None:
    bench.say("hello world")
    await bench.client.chat()
    text = (await bench.client.get("/metrics")).body.decode()
    gauges = {name: values[0] for name, values in parse(text).items()}
    blocks = bench.runner.num_blocks
    assert (gauges["sekisho_engine_kv_cache_blocks"], gauges["sekisho_engine_kv_cache_free_blocks"]) == (blocks, blocks)
    assert gauges["sekisho_engine_kv_cache_block_size"] == 16
    assert gauges["sekisho_engine_step_seconds_count"] == gauges["sekisho_engine_steps_total"] == 3
    assert gauges["sekisho_engine_step_decodes_sum"] == 2
    assert gauges["sekisho_engine_step_tokens_sum"] == gauges["sekisho_engine_prompt_tokens_total"] + 2


async def test_requests_that_wait_for_a_step_to_end_are_counted_as_waiting(bench: Bench) -> None:
    bench.runner.gated = True
    body = b'{"model":"tiny","messages":[{"role":"user","content":"x"}]}'
    tasks = [bench.client.open("POST", "/v1/chat/completions", body)[0]]
    await bench.until(lambda: bench.service.delivery.engine.stats().running == 1)
    tasks += [bench.client.open("POST", "/v1/chat/completions", body)[0] for _ in range(2)]
    await bench.until(lambda: bench.service.delivery.num_open == 3)
    assert bench.service.delivery.engine.stats().waiting == 2
    bench.runner.gate.release(100)
    await asyncio.gather(*tasks)


async def test_tokenize_counts_a_prompt_and_rendered_messages(bench: Bench) -> None:
    plain = await bench.client.post("/tokenize", {"prompt": "hello world"})
    chat = await bench.client.post("/tokenize", {"messages": [{"role": "user", "content": "hello"}]})
    assert plain.json["count"] == len(plain.json["tokens"]) == 2
    assert plain.json["max_model_len"] == CONTEXT
    assert chat.json["tokens"][0] == 1
    assert (await bench.client.post("/tokenize", {})).status == 400
    assert (await bench.client.post("/tokenize", b"{")).status == 400


async def test_a_fault_of_ours_is_a_500_without_its_reason(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(bench.service.delivery.engine, "stats", fail)
    answer = await bench.client.get("/metrics")
    assert answer.status == 500
    assert b"secret" not in answer.body


async def test_an_oversized_body_is_413(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native_engine.server.http.MAX_BODY_BYTES", 100)
    answer = await bench.client.chat("x" * 200)
    assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_draining_refuses_new_work_and_finishes_the_old(bench: Bench) -> None:
    bench.say("hello world")
    bench.runner.gated = True
    body = b'{"model":"tiny","stream":true,"messages":[{"role":"user","content":"x"}]}'
    running, _ = bench.client.open("POST", "/v1/chat/completions", body)
    await asyncio.sleep(0.05)
    drained = asyncio.ensure_future(bench.service.drain(5))
    await asyncio.sleep(0.01)
    assert (await bench.client.get("/health")).status == 503
    assert (await bench.client.chat()).status == 503
    assert (await bench.client.get("/metrics")).status == 200
    bench.runner.gate.release(100)
    answer = await asyncio.wait_for(running, 5)
    assert answer.events[-1] == "[DONE]"
    assert "".join(answer.deltas) == "hello world"
    await asyncio.wait_for(drained, 5)


async def test_what_outlasts_the_drain_is_cut_off_with_an_error_event(bench: Bench) -> None:
    bench.say("hello world " * 10)
    bench.runner.gated = True
    body = b'{"model":"tiny","stream":true,"messages":[{"role":"user","content":"x"}]}'
    running, _ = bench.client.open("POST", "/v1/chat/completions", body)
    bench.runner.gate.release(5)
    await asyncio.sleep(0.05)
    drained = asyncio.ensure_future(bench.service.drain(0))
    await asyncio.sleep(0.01)
    bench.runner.gate.release(100)
    answer = await asyncio.wait_for(running, 5)
    await drained
    assert answer.status == 200
    assert answer.events[-1]["error"]["type"] == "unavailable_error"
