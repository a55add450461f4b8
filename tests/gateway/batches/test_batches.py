"""Batches through the door: every line is a request of whoever began the batch, and every line has one result."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

import pytest
from msgspec.structs import replace

from backends.errors import Broken
from backends.fake import Script, chat_script
from gateway.batches.records import Batch
from gateway.errors import Conflict
from gateway.identity.records import Key, ServiceAccount
from gateway.store.directory import Actor
from tests.gateway.batches.conftest import ClientOf, begun, client_of, ended, lines_of, refusal, request, until
from tests.gateway.conftest import RunningDoor, StartDoor, eventually

__all__ = ["client_of"]


async def test_every_line_is_answered_under_its_custom_id(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    batch = await begun(client, [request(f"r{number}") for number in range(20)])
    assert (batch.object, batch.status, batch.completion_window) == ("batch", "validating", "24h")
    batch = await ended(client, batch)
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 20, "completed": 20, "failed": 0}
    assert batch.created_at <= (batch.in_progress_at or 0) <= (batch.finalizing_at or 0) <= (batch.completed_at or 0)
    assert batch.error_file_id is None
    results = await lines_of(client, batch.output_file_id)
    assert sorted(result["custom_id"] for result in results) == sorted(f"r{number}" for number in range(20))
    for result in results:
        assert result["error"] is None
        assert result["response"]["status_code"] == 200
        assert len(result["response"]["request_id"]) == 32
        assert result["response"]["body"]["choices"][0]["message"]["content"] == "Hello, world."
        assert result["response"]["body"]["usage"]["total_tokens"] == 9


async def test_lines_are_asked_without_haste_and_on_the_account_of_who_began_the_batch(
    door: RunningDoor, client_of: ClientOf
) -> None:
    program = client_of(door, await key(door))
    await ended(program, await begun(program, [request("one"), request("two")]))
    assert {asked.headers["x-sekisho-class"] for asked in door.backend.asked} == {"batch"}
    async with door.client.get("/admin/v1/usage?by=service_account") as response:
        assert {row["id"]: row["requests"] for row in (await response.json())["data"]} == {"ci": 2}


async def test_what_the_door_refuses_becomes_an_error_line_and_the_rest_goes_on(
    door: RunningDoor, client_of: ClientOf
) -> None:
    client = client_of(door)
    batch = await ended(client, await begun(client, [request("good"), request("bad", temperature=9)]))
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert batch.request_counts.model_dump() == {"total": 2, "completed": 1, "failed": 1}
    assert [line["custom_id"] for line in await lines_of(client, batch.output_file_id)] == ["good"]
    (error,) = await lines_of(client, batch.error_file_id)
    assert error["custom_id"] == "bad"
    assert error["response"]["status_code"] == 400
    assert error["response"]["body"]["error"]["param"] == "temperature"


async def test_a_bad_file_fails_the_batch_and_every_fault_has_its_line(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    batch = await ended(client, await begun(client, [request("a"), b"{", request("a"), request("b", model="other")]))
    assert batch.status == "failed"
    assert batch.failed_at
    assert batch.errors is not None
    assert [(fault.line, fault.code) for fault in batch.errors.data or ()] == [
        (2, "invalid_json_line"),
        (3, "duplicate_custom_id"),
        (4, "mismatched_model"),
    ]
    assert door.backend.asked == []


@pytest.mark.slow
async def test_a_line_that_finds_no_room_waits_and_is_asked_again(start_door: StartDoor, client_of: ClientOf) -> None:
    answers = [Script(status=503, steps=[b'{"error": "busy"}']), Script(status=503), chat_script(("fine",))]

    def answer(body: bytes) -> Script:
        return answers.pop(0)

    door = await start_door(batch_parallel=1)
    door.backend.answer = answer
    client = client_of(door)
    batch = await ended(client, await begun(client, [request("one")]))
    assert batch.request_counts is not None
    assert (batch.status, batch.request_counts.completed, len(door.backend.asked)) == ("completed", 1, 3)


@pytest.mark.slow
async def test_an_engine_that_breaks_off_is_asked_again_and_not_for_ever(
    start_door: StartDoor, client_of: ClientOf
) -> None:
    door = await start_door()
    door.backend.answer = lambda body: Script([Broken("gone")])
    client = client_of(door)
    batch = await ended(client, await begun(client, [request("one")]), seconds=30)
    (error,) = await lines_of(client, batch.error_file_id)
    assert error["response"]["status_code"] == 502
    assert len(door.backend.asked) == 3


async def test_cancelling_ends_what_runs_and_keeps_what_is_done(start_door: StartDoor, client_of: ClientOf) -> None:
    door = await start_door(batch_parallel=2)
    door.backend.answer = lambda body: chat_script(("word",), delay=60 if b"slow" in body else 0)
    client = client_of(door)
    lines = [request("quick"), *(request(f"slow{number}", "slow") for number in range(5))]
    batch = await begun(client, lines)
    await eventually(lambda: len(door.backend.asked) == 3, 5)
    batch = await client.batches.cancel(batch.id)
    assert batch.status == "cancelling"
    batch = await ended(client, batch)
    assert batch.status == "cancelled"
    assert batch.cancelled_at
    assert [line["custom_id"] for line in await lines_of(client, batch.output_file_id)] == ["quick"]
    assert len(door.backend.asked) == 3
    assert all(asked.closed.is_set() for asked in door.backend.asked)
    await refusal(client.batches.cancel((await ended(client, await begun(client, [request("x")]))).id), 409)


async def test_what_is_not_done_in_time_expires_line_by_line(start_door: StartDoor, client_of: ClientOf) -> None:
    door = await start_door(batch_parallel=1)
    door.backend.answer = lambda body: chat_script(("word",), delay=60 if b"slow" in body else 0)
    client = client_of(door)
    batch = await begun(client, [request("quick"), request("slow", "slow"), request("never")], window="1h")
    assert batch.expires_at == batch.created_at + 3600
    await eventually(lambda: len(door.backend.asked) == 2, 5)
    await stop_and_shorten(door, batch.id)
    second = await start_door()
    batch = await ended(client_of(second), batch)
    assert batch.status == "expired"
    assert [line["custom_id"] for line in await lines_of(client_of(second), batch.output_file_id)] == ["quick"]
    errors = await lines_of(client_of(second), batch.error_file_id)
    assert [(line["custom_id"], line["error"]["code"]) for line in errors] == [
        ("slow", "batch_expired"),
        ("never", "batch_expired"),
    ]
    assert all(line["response"] is None for line in errors)
    assert second.backend.asked == []


async def stop_and_shorten(door: RunningDoor, batch_id: str) -> None:
    """The gateway leaves the batch, whose time then runs out."""
    assert door.app.door is not None
    await door.app.door.runner.aclose()
    now = int(time.time())
    await door.app.door.directory.change(None, Batch, batch_id, lambda before: replace(before, expires=now))


async def test_a_key_that_is_revoked_fails_its_batch_with_the_reason(
    start_door: StartDoor, client_of: ClientOf
) -> None:
    door = await start_door(batch_parallel=1)
    assert door.app.door is not None
    door.backend.answer = lambda body: chat_script(("word",), delay=60 if b"slow" in body else 0)
    client = client_of(door, await key(door))
    batch = await begun(client, [request("quick"), request("slow", "slow"), request("never")])
    await eventually(lambda: len(door.backend.asked) == 2, 5)
    (made,) = [one for one in await door.app.door.directory.page(Key) if one.name == "batches"]
    await door.app.door.directory.delete(None, Key, made.id)
    other = client_of(door, await key(door))
    batch = await ended(other, batch)
    assert batch.status == "failed"
    assert batch.errors is not None
    assert [fault.code for fault in batch.errors.data or ()] == ["credential_revoked"]
    assert [line["custom_id"] for line in await lines_of(other, batch.output_file_id)] == ["quick"]
    assert len(door.backend.asked) == 2


async def key(door: RunningDoor, **limits: object) -> str:
    """Of the program `ci`."""
    assert door.app.door is not None
    with suppress(Conflict):
        await door.app.door.directory.create(None, ServiceAccount(id="ci"))
    draft = Key(id="", digest="", owner="service_account:ci", name="batches", **limits)  # type: ignore[arg-type]
    return (await door.app.door.key_ring.issue(Actor("t", "t", "cli", "here"), draft)).key


async def test_a_batch_is_nobodys_but_its_owners(door: RunningDoor, client_of: ClientOf) -> None:
    owner, admin = client_of(door, await key(door)), client_of(door)
    batch = await ended(owner, await begun(owner, [request("one")]))
    for call in (admin.batches.retrieve(batch.id), admin.batches.cancel(batch.id)):
        assert (await refusal(call, 404))["message"] == f"No such Batch object: {batch.id}."
    assert (await admin.batches.list()).data == []
    assert [one.id for one in (await owner.batches.list()).data] == [batch.id]


async def test_two_people_of_one_program_do_not_see_each_others(door: RunningDoor, client_of: ClientOf) -> None:
    program = client_of(door, await key(door, on_behalf_of=True))
    anna, ben = (program.with_options(default_headers={"x-on-behalf-of": name}) for name in ("anna", "ben"))
    batch = await ended(anna, await begun(anna, [request("one")]))
    assert batch.status == "completed"
    await refusal(ben.batches.retrieve(batch.id), 404)
    await refusal(ben.files.content(batch.output_file_id or ""), 404)


async def test_what_is_no_batch_is_refused_by_the_fields_name(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    file = await client.files.create(file=("in.jsonl", b"{}"), purpose="batch")
    good = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    for change in ({"completion_window": "30d"}, {"endpoint": "/admin/v1/keys"}, {"metadata": {"k": "v" * 600}},
                   {"priority": 1}, {"completion_window": "h"}):  # fmt: skip
        async with door.client.post("/v1/batches", json=good | change) as response:
            assert response.status == 400, change
            assert next(iter(change)) in json.dumps(await response.json())
    await refusal(client.batches.create(**good | {"input_file_id": "file-../../etc/passwd"}), 404)  # type: ignore[arg-type]


async def test_a_key_that_may_not_chat_may_not_have_a_batch_chat(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door, await key(door, endpoints=("files", "batches", "embeddings")))
    file = await client.files.create(file=("in.jsonl", b"{}"), purpose="batch")
    error = await refusal(
        client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"), 403
    )
    assert "this is chat" in error["message"]


async def test_batches_are_listed_newest_first_a_page_at_a_time(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    made = []
    for number in range(3):
        made.append((await begun(client, [request(f"r{number}")])).id)
        await asyncio.sleep(0.002)
    first = await client.batches.list(limit=2)
    assert [batch.id for batch in first.data] == [made[2], made[1]]
    assert first.has_more
    assert [batch.id async for batch in client.batches.list(limit=2)] == list(reversed(made))


async def test_metrics_count_lines_and_running_batches(door: RunningDoor, client_of: ClientOf) -> None:
    client = client_of(door)
    await ended(client, await begun(client, [request("good"), request("bad", temperature=9)]))
    async with door.client.get("/metrics") as response:
        text = await response.text()
    assert 'sekisho_batch_lines_total{result="completed"} 1.0' in text
    assert 'sekisho_batch_lines_total{result="failed"} 1.0' in text
    assert "sekisho_batches_running 0.0" in text


async def test_progress_is_told_while_it_runs(start_door: StartDoor, client_of: ClientOf) -> None:
    door = await start_door(batch_parallel=1)
    door.backend.answer = lambda body: chat_script(("word",), delay=60 if b"slow" in body else 0)
    client = client_of(door)
    batch = await begun(client, [request("quick"), request("slow", "slow")])
    batch = await until(client, batch, lambda it: it.request_counts is not None and it.request_counts.completed == 1)
    assert (batch.status, batch.model) == ("in_progress", "fake")
