from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from backends.gauges import parse
from native_engine.server.accounts import Accounts
from native_engine.server.generation import Generation
from native_engine.server.metrics import Metrics
from tests.native_engine.server.conftest import MODEL, Answer, Bench

CHAT = "/v1/chat/completions"
FINAL = ("finished", "aborted", "failed")


def chat_body(content: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


def begin(bench: Bench, request_id: str, **fields: Any) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
    body = json.dumps(chat_body(stream=True, **fields)).encode()
    return bench.client.open("POST", CHAT, body, {"x-request-id": request_id})


async def account(bench: Bench, request_id: str) -> dict[str, Any]:
    answer = await bench.client.get(f"/internal/requests/{request_id}")
    assert answer.status == 200
    return dict(answer.json)


async def test_the_account_says_what_the_usage_said(bench: Bench) -> None:
    bench.say("hello world")
    answer = await bench.client.post(CHAT, chat_body(), {"x-request-id": "one"})
    usage = answer.json["usage"]
    kept = await account(bench, "one")
    stages = [kept.pop(f"{stage}_seconds") for stage in ("queue", "prefill", "decode")]
    assert all(0 <= seconds < 10 for seconds in stages)
    assert kept == {
        "id": "one",
        "state": "finished",
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "completion_tokens": usage["completion_tokens"],
    }


async def test_cached_tokens_are_in_the_account(bench: Bench) -> None:
    for request_id in ("first", "second"):
        await bench.client.post(CHAT, chat_body("hello " * 40), {"x-request-id": request_id})
    assert (await account(bench, "first"))["cached_tokens"] == 0
    second = await account(bench, "second")
    whole_blocks = (second["prompt_tokens"] - 1) // 16
    assert second["cached_tokens"] == 16 * whole_blocks > 0


@pytest.mark.parametrize(("salts", "shared"), [(("a", "a"), True), (("a", "b"), False), ((None, "a"), False)])
async def test_only_requests_of_one_salt_find_each_others_prefixes(
    bench: Bench, salts: tuple[str | None, str | None], shared: bool
) -> None:
    cached = []
    for salt in salts:
        headers = {} if salt is None else {"x-sekisho-cache-salt": salt}
        usage = (await bench.client.post(CHAT, chat_body("hello " * 40), headers)).json["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == 0
    assert (cached[1] > 0) == shared


async def test_several_answers_tell_only_what_was_in_the_cache_before_them(bench: Bench) -> None:
    for request_id in ("first", "second"):
        await bench.client.post(CHAT, chat_body("hello " * 40, n=3), {"x-request-id": request_id})
    first, second = await account(bench, "first"), await account(bench, "second")
    assert first["cached_tokens"] == 0, "the answers to one prompt share its blocks, and no earlier request's"
    assert second["cached_tokens"] == (second["prompt_tokens"] - 1) // 16 * 16


@pytest.mark.parametrize("fields", [{"n": 3}, {"prompt": ["hello", "world world"]}, {"prompt": ["a", "b"], "n": 2}])
async def test_several_answers_and_prompts_add_up_to_their_usage(bench: Bench, fields: dict[str, Any]) -> None:
    bench.say("hello")
    body = {"model": MODEL, "prompt": "hello hello", **fields}
    usage = (await bench.client.post("/v1/completions", body, {"x-request-id": "many"})).json["usage"]
    kept = await account(bench, "many")
    assert (kept["prompt_tokens"], kept["completion_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])


async def test_tokens_past_a_stop_string_are_in_no_account(bench: Bench) -> None:
    bench.say("hello world, END of story" * 3)
    answer = await bench.client.post(CHAT, chat_body(stop=["END of"]), {"x-request-id": "stopped"})
    await bench.idle()
    kept = await account(bench, "stopped")
    assert (kept["state"], kept["completion_tokens"]) == ("finished", answer.json["usage"]["completion_tokens"])


async def test_an_answer_under_way_tells_how_far_it_is(bench: Bench) -> None:
    bench.say("hello " * 30)
    bench.runner.gated = True
    running, _ = begin(bench, "under-way")
    await bench.until(lambda: bench.service.delivery.num_open == 1)
    bench.runner.gate.release(3)
    await bench.until(lambda: bench.runner.steps == 3)
    await asyncio.sleep(0.02)
    so_far = await account(bench, "under-way")
    assert (so_far["state"], so_far["completion_tokens"]) == ("running", 3)
    assert so_far["prompt_tokens"] > 0
    assert (await account(bench, "under-way"))["decode_seconds"] > so_far["decode_seconds"] > 0
    bench.runner.gate.release(100)
    await running
    assert (await account(bench, "under-way"))["state"] == "finished"


async def test_a_client_that_leaves_has_an_account_of_what_was_generated(bench: Bench) -> None:
    bench.say("hello " * 30)
    bench.runner.gated = True
    running, leave = begin(bench, "gone")
    bench.runner.gate.release(3)
    await bench.until(lambda: bench.runner.steps == 3)
    await asyncio.sleep(0.02)
    leave()
    await running
    kept = await account(bench, "gone")
    assert (kept["state"], kept["completion_tokens"]) == ("aborted", 3)
    bench.runner.gate.release(100)
    await bench.idle()
    assert await account(bench, "gone") == kept, "what came after the end was counted"


async def test_a_request_that_never_ran_has_cost_nothing(bench: Bench) -> None:
    bench.runner.gated = True
    other, _ = begin(bench, "other")
    await bench.until(lambda: bench.service.delivery.engine.stats().running == 1)
    running, leave = begin(bench, "waiting")
    await bench.until(lambda: bench.service.delivery.num_open == 2)
    so_far = await account(bench, "waiting")
    assert (so_far["state"], so_far["prefill_seconds"], so_far["decode_seconds"]) == ("waiting", None, None)
    assert so_far["queue_seconds"] > 0
    leave()
    await running
    kept = await account(bench, "waiting")
    assert (kept["state"], kept["prompt_tokens"], kept["completion_tokens"]) == ("aborted", 0, 0)
    bench.runner.gate.release(1000)
    await other


async def test_a_failed_request_has_an_account(bench: Bench) -> None:
    bench.say("hello world hello world")
    bench.runner.fail_after = 2
    await bench.client.post(CHAT, chat_body(), {"x-request-id": "failed"})
    kept = await account(bench, "failed")
    assert (kept["state"], kept["completion_tokens"]) == ("failed", 2)


async def test_an_unknown_or_refused_request_is_a_404(bench: Bench) -> None:
    await bench.client.post(CHAT, chat_body("hello " * 300), {"x-request-id": "refused"})
    for request_id in ("refused", "never-seen", ""):
        answer = await bench.client.get(f"/internal/requests/{request_id}")
        assert (answer.status, answer.json["error"]["code"]) == (404, "request_not_found")


async def test_an_id_that_is_sent_again_has_cost_both_runs(bench: Bench) -> None:
    bench.say("hello")
    usage = [(await bench.client.post(CHAT, chat_body(), {"x-request-id": "twice"})).json["usage"] for _ in range(2)]
    kept = await account(bench, "twice")
    assert kept["completion_tokens"] == sum(each["completion_tokens"] for each in usage)
    assert kept["queue_seconds"] > 0
    assert kept["prompt_tokens"] == sum(each["prompt_tokens"] for each in usage)


async def test_all_accounts_add_up_to_the_accounted_totals_whoever_leaves_when(bench: Bench) -> None:
    bench.say("hello " * 20)
    requests = [begin(bench, f"r{number}", n=1 + number % 3) for number in range(24)]
    for number, (_, leave) in enumerate(requests):
        await asyncio.sleep(0.001)
        if number % 2:
            leave()
    await asyncio.gather(*(task for task, _ in requests))
    await bench.idle()
    kept = [await account(bench, f"r{number}") for number in range(24)]
    totals = parse((await bench.client.get("/metrics")).body.decode())
    assert {each["state"] for each in kept} <= set(FINAL)
    for kind in ("prompt", "cached", "completion"):
        (total,) = totals[f"sekisho_engine_accounted_{kind}_tokens_total"]
        assert total == sum(each[f"{kind}_tokens"] for each in kept)


async def test_each_sequence_is_timed_in_each_stage_that_it_came_to(bench: Bench) -> None:
    bench.say("hello world")
    await bench.client.post(CHAT, chat_body(n=2))
    bench.runner.gated = True
    running, leave = begin(bench, "prefilling")
    await bench.until(lambda: bench.service.delivery.engine.stats().running == 1)
    leave()
    await running
    bench.runner.gate.release(100)
    await bench.idle()
    text = (await bench.client.get("/metrics")).body.decode()
    counts = {
        stage: parse(text)[f"sekisho_engine_request_{stage}_time_seconds_count"]
        for stage in ("queue", "prefill", "decode")
    }
    assert counts == {"queue": [3], "prefill": [3], "decode": [2]}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def keep(accounts: Accounts, bench: Bench, request_id: str) -> None:
    with accounts.kept(request_id, Generation(bench.service.delivery, Metrics(), (), 0.0)):
        pass


async def test_old_accounts_are_forgotten_by_number_and_by_age(bench: Bench) -> None:
    clock = Clock()
    accounts = Accounts(Metrics(), requests=3, seconds=10, clock=clock)
    for number in range(5):
        keep(accounts, bench, str(number))
    assert [str(number) for number in range(5) if accounts.find(str(number))] == ["2", "3", "4"]
    clock.now = 9
    keep(accounts, bench, "3")
    clock.now = 10
    assert [str(number) for number in range(5) if accounts.find(str(number))] == ["3"]
    keep(accounts, bench, "new")
    clock.now = 30
    assert accounts.find("new") is None
