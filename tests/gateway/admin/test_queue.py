"""The queue as administrators see it, and what they do to it: every gateway obeys, and the books stay right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import redis

from backends.base import ModelCard
from backends.fake import DONE, FakeBackend, Script, chat_chunk, event
from gateway.identity.records import Key, User
from gateway.quotas.policy import Policy
from gateway.store import keys
from tests.gateway.admin.conftest import ACTOR, KeyOf, answer
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually
from tests.gateway.test_disconnect import leases
from tests.gateway.test_pipeline import events

WORD = event(chat_chunk({"content": "word"}))
END = (event(chat_chunk({}, "stop")), DONE)
Answer = tuple[int, Any]


@pytest.fixture
async def busy(start_door: StartDoor) -> RunningDoor:
    """A door whose engine says one word and then nothing more, to one at a time."""
    return await start_door(endless(), max_concurrency=1, key_cache_seconds=0)


def endless() -> FakeBackend:
    return FakeBackend(lambda body: Script((WORD, 30.0, WORD, *END)))


def gated(gate: asyncio.Event) -> FakeBackend:
    """Says its first word at once, and the rest once the gate is open."""

    def steps() -> Iterator[bytes | float]:
        yield WORD
        while not gate.is_set():
            yield 0.005
        yield from END

    return FakeBackend(lambda body: Script(steps()))  # type: ignore[arg-type]


@asynccontextmanager
async def streaming(door: RunningDoor, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
    async with door.post(ask(stream=True), **options) as response, asyncio.timeout(10):
        assert response.status == 200
        assert b"word" in await response.content.readany()
        yield response


async def told(door: RunningDoor, stream: bool = False, **options: Any) -> Answer:
    """Status and answer, of a stream its last event."""
    async with door.post(ask(stream=stream), **options) as response:
        text = await response.text()
        return response.status, events(text)[-1] if response.content_type == "text/event-stream" else json.loads(text)


async def line_of(door: RunningDoor, query: str = "") -> dict[str, Any]:
    await told_of(door)
    (found,) = (await answer(door, "GET", f"/queue{query}"))["lines"]
    return dict(found)


async def told_of(door: RunningDoor) -> None:
    """A gateway tells of its engine once it knows it, within half a second."""
    with redis.Redis.from_url(door.settings.redis_url) as server:
        await eventually(lambda: server.exists(keys.LINES))


async def waiting(door: RunningDoor, how_many: int = 1) -> list[dict[str, Any]]:
    """Those that wait, once there are so many."""
    for _ in range(1000):
        if len(found := (await line_of(door))["waiting"]) == how_many:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"never were {how_many} waiting")


async def booked(door: RunningDoor) -> dict[str, int]:
    (row,) = (await answer(door, "GET", "/usage?by=model"))["data"]
    return {name: row[name] for name in ("requests", "failed", "prompt_tokens", "completion_tokens")}


async def limited(door: RunningDoor) -> None:
    policy = msgspec.convert({"id": "all", "tokens_per_day": 100_000, "concurrent_requests": 50}, Policy)
    await directory(door).create(None, policy)


async def left(door: RunningDoor) -> dict[str, int]:
    me = (await answer(door, "GET", "/whoami"))["subject"]
    found = await answer(door, "GET", f"/policies/effective?user={me}&model=fake")
    return {limit["limit"]: limit["left"] for limit in found["limits"]}


def directory(door: RunningDoor) -> Any:
    assert door.app.door is not None
    return door.app.door.directory


def nothing_is_held(door: RunningDoor) -> bool:
    with redis.Redis.from_url(door.settings.redis_url) as server:
        return leases(door) == 0 and server.zcard(keys.RESERVATIONS) == 0


async def audited(door: RunningDoor, action: str) -> list[dict[str, Any]]:
    return list((await answer(door, "GET", f"/audit?action={action}"))["data"])


async def test_who_runs_and_who_waits_is_seen(busy: RunningDoor) -> None:
    me = (await answer(busy, "GET", "/whoami"))["subject"]
    async with streaming(busy):
        others = [asyncio.create_task(told(busy)) for _ in range(2)]
        first, second = await waiting(busy, 2)
        found = await line_of(busy)
        (running,) = found["running"]
        assert (found["name"], found["models"]) == ("fake", ["fake"])
        assert found["classes"]["api"] == {"running": 1, "waiting": 2}
        assert found["classes"]["batch"] == {"running": 0, "waiting": 0}
        (backend,) = found["backends"]
        assert (backend["name"], backend["capacity"], backend["running"]) == ("fake", 1, 1)
        assert backend["kv_tokens_in_use"] == running["kv_tokens"] > 0
        assert (running["line"], running["backend"], first["backend"]) == ("fake", "fake", None)
        assert (running["state"], running["place"], running["model"]) == ("running", None, "fake")
        assert running["running_since"] >= running["waiting_since"] > 0
        assert [first["place"], second["place"]] == [1, 2]
        assert first["subject"] == second["subject"] == me
        assert first["running_since"] is None
        assert len((await line_of(busy, "?limit=1"))["waiting"]) == 1
        assert (await line_of(busy, "?limit=1"))["has_more"] is True
        nobody = await line_of(busy, "?subject=nobody")
        assert (nobody["running"], nobody["waiting"], nobody["has_more"]) == ([], [], False)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    await eventually(lambda: nothing_is_held(busy))
    assert (await line_of(busy))["running"] == []


@pytest.mark.parametrize("stream", [True, False])
async def test_a_running_request_is_ended_wherever_it_is_and_what_it_used_is_booked(
    start_door: StartDoor, stream: bool
) -> None:
    door, elsewhere = await start_door(endless(), key_cache_seconds=0), await start_door(key_cache_seconds=0)
    await limited(door)
    asking = asyncio.create_task(told(door, stream))
    await eventually(lambda: door.backend.asked and door.backend.asked[0].started.is_set())
    (running,) = (await line_of(elsewhere))["running"]
    deleted = await answer(elsewhere, "DELETE", f"/queue/{running['id']}")
    assert deleted == {"id": running["id"], "object": "queued_request", "deleted": True}
    status, said = await asyncio.wait_for(asking, 5)
    assert status == (200 if stream else 403)
    assert said["error"]["code"] == "cancelled_by_administrator"
    assert "administrator" in said["error"]["message"]
    assert door.backend.asked[0].aborted
    await eventually(lambda: nothing_is_held(door))
    account = await booked(door)
    assert (account["requests"], account["failed"], account["completion_tokens"]) == (1, 1, 1)
    assert account["prompt_tokens"] > 0
    assert await left(door) == {
        "tokens_per_day": 100_000 - account["prompt_tokens"] - 1,
        "concurrent_requests": 50,
    }
    (line,) = await audited(door, "queue.cancel")
    assert line["target"] == f"request:{running['id']}"
    assert line["after"]["state"] == "running"


async def test_a_prompt_that_was_read_is_booked_though_nothing_was_said_yet(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script((30.0, WORD, *END))))
    asking = asyncio.create_task(told(door))
    await eventually(lambda: door.backend.asked and door.backend.asked[0].started.is_set())
    (running,) = (await line_of(door))["running"]
    await answer(door, "DELETE", f"/queue/{running['id']}")
    assert (await asking)[0] == 403
    await eventually(lambda: nothing_is_held(door))
    account = await booked(door)
    assert (account["prompt_tokens"] > 0, account["completion_tokens"]) == (True, 0)


async def test_a_waiting_request_is_ended_at_once_and_costs_nothing(busy: RunningDoor) -> None:
    await limited(busy)
    async with streaming(busy):
        before = await left(busy)
        asking = asyncio.create_task(told(busy))
        (waits,) = await waiting(busy)
        await answer(busy, "DELETE", f"/queue/{waits['id']}")
        status, said = await asyncio.wait_for(asking, 5)
        assert (status, said["error"]["code"]) == (403, "cancelled_by_administrator")
        await eventually(lambda: leases(busy) == 1)
        assert await left(busy) == before
    assert len(busy.backend.asked) == 1


async def test_a_client_is_told_not_to_try_again(busy: RunningDoor) -> None:
    async with streaming(busy):
        asking = asyncio.create_task(told_headers(busy))
        (waits,) = await waiting(busy)
        await answer(busy, "DELETE", f"/queue/{waits['id']}")
        assert (await asking)["x-should-retry"] == "false"


async def told_headers(door: RunningDoor) -> dict[str, str]:
    async with door.post(ask()) as response:
        return dict(response.headers)


async def test_an_order_whose_news_was_lost_is_obeyed_all_the_same(busy: RunningDoor) -> None:
    async with streaming(busy) as response:
        (running,) = (await line_of(busy))["running"]
        with redis.Redis.from_url(busy.settings.redis_url) as server:
            server.zadd(keys.CANCELLED, {running["id"]: 10**15})
        assert events((await response.read()).decode())[-1]["error"]["code"] == "cancelled_by_administrator"


async def test_nobody_is_ended_by_the_id_of_another(busy: RunningDoor) -> None:
    async with streaming(busy):
        for path in ("/queue/nobody", f"/queue/{'0' * 32}"):
            async with busy.client.delete(f"/admin/v1{path}") as response:
                await error_of(response, 404, "not_found")
        assert len((await line_of(busy))["running"]) == 1
    assert await audited(busy, "queue.cancel") == []


async def test_who_waits_is_moved_to_another_class(start_door: StartDoor, key_of: KeyOf) -> None:
    door = await start_door(endless(), max_concurrency=1)
    batch, haste = await key_of("service", queue_class="batch"), await key_of("user", queue_class="interactive")
    async with streaming(door):
        slow = asyncio.create_task(told(door, headers=batch))
        (first,) = await waiting(door)
        assert first["class"] == "batch"
        quick = asyncio.create_task(told(door, headers=haste))
        assert [one["class"] for one in await waiting(door, 2)] == ["interactive", "batch"]
        moved = await answer(door, "PATCH", f"/queue/{first['id']}", {"class": "interactive"})
        assert (moved["class"], moved["waiting_since"]) == ("interactive", first["waiting_since"])
        assert (await line_of(door))["classes"]["interactive"]["waiting"] == 2
        assert (await line_of(door))["classes"]["batch"]["waiting"] == 0
        # It is still heard of by its owner, who says that it lives and is woken in its new class.
        await answer(door, "DELETE", f"/queue/{first['id']}")
        assert (await slow)[1]["error"]["code"] == "cancelled_by_administrator"
        quick.cancel()
        await asyncio.gather(quick, return_exceptions=True)
    (line,) = await audited(door, "queue.class")
    assert line["after"]["class"] == "interactive"


async def test_a_moved_request_gets_its_turn(start_door: StartDoor) -> None:
    gate = asyncio.Event()
    door = await start_door(gated(gate), max_concurrency=1)
    async with streaming(door):
        asking = asyncio.create_task(told(door))
        (waits,) = await waiting(door)
        await answer(door, "PATCH", f"/queue/{waits['id']}", {"class": "batch"})
        gate.set()
        assert (await asking)[0] == 200
    await eventually(lambda: nothing_is_held(door))


async def test_a_class_means_nothing_to_who_runs_or_is_not_there(busy: RunningDoor) -> None:
    async with streaming(busy):
        (running,) = (await line_of(busy))["running"]
        for name, status in ((running["id"], 409), ("nobody", 404)):
            async with busy.client.patch(f"/admin/v1/queue/{name}", json={"class": "batch"}) as response:
                await error_of(response, status)
        async with busy.client.patch(f"/admin/v1/queue/{running['id']}", json={"class": "first"}) as response:
            assert (await error_of(response, 400))["param"] == "class"


async def test_a_drained_model_takes_nobody_new_on_any_gateway_and_who_runs_finishes(start_door: StartDoor) -> None:
    gate = asyncio.Event()
    door = await start_door(gated(gate), max_concurrency=1)
    elsewhere = await start_door(max_concurrency=1)
    async with streaming(door) as response:
        line_up = asyncio.create_task(told(elsewhere))
        await waiting(door)
        assert (await answer(door, "POST", "/models/fake/drain"))["draining"] is True
        status, said = await asyncio.wait_for(line_up, 5)
        assert (status, said["error"]["code"]) == (503, "model_draining")
        for one in (door, elsewhere):
            async with one.post(ask()) as refused:
                await error_of(refused, 503, "model_draining")
                assert int(refused.headers["retry-after"]) > 0
            async with one.client.get("/readyz") as ready:
                assert ready.status == 200
                assert (await ready.json())["draining"] == 1
        gate.set()
        assert (await response.read()).endswith(DONE)
    (drained,) = (await answer(door, "GET", "/queue"))["draining"]
    assert (drained["id"], drained["draining"]) == ("fake", True)
    assert drained["since"] > 0
    assert (await answer(elsewhere, "POST", "/models/fake/undrain"))["draining"] is False
    for one in (door, elsewhere):
        await eventually(lambda one=one: not one.app.door.orders.drained)
        assert (await told(one))[0] == 200
    assert (await answer(door, "GET", "/queue"))["draining"] == []
    assert [line["target"] for line in await audited(door, "drain.create")] == ["drain:fake"]
    assert [line["target"] for line in await audited(door, "drain.delete")] == ["drain:fake"]


async def test_to_drain_twice_is_to_drain_once(door: RunningDoor) -> None:
    await told_of(door)
    first = await answer(door, "POST", "/models/fake/drain")
    assert await answer(door, "POST", "/models/fake/drain") == first
    assert len(await audited(door, "drain.create")) == 1
    await answer(door, "POST", "/models/fake/undrain")
    await answer(door, "POST", "/models/fake/undrain", status=404)
    await answer(door, "POST", "/models/other/drain", status=404)


async def test_a_gateway_that_starts_knows_what_is_drained(start_door: StartDoor) -> None:
    first = await start_door()
    await told_of(first)
    await answer(first, "POST", "/models/fake/drain")
    second = await start_door()
    assert second.app.door is not None
    async with second.post(ask()) as response:
        await error_of(response, 503, "model_draining")


async def test_the_other_models_of_a_drained_ones_engine_are_served(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(models=("fake", "org/other")))
    await told_of(door)
    await answer(door, "POST", "/models/org/other/drain")
    assert (await told(door))[0] == 200
    async with door.post(ask(model="org/other")) as response:
        await error_of(response, 503, "model_draining")


class Shrinking(FakeBackend):
    """An engine that may lose its model, and then knows it no more."""

    def lose(self) -> None:
        self._models = [ModelCard("another", 4096)]
        self.answer = lambda body: Script((b'{"error":{"message":"no such model","code":"x"}}',), status=404)


async def test_who_waits_for_a_model_that_is_removed_is_told_and_pays_nothing(start_door: StartDoor) -> None:
    backend = Shrinking(lambda body: Script((WORD, 30.0, *END)))
    door = await start_door(backend, max_concurrency=1, key_cache_seconds=0)
    await limited(door)
    async with streaming(door):
        before = await left(door)
        asking = asyncio.create_task(told(door))
        await waiting(door)
        backend.lose()
        await looked(door)
        status, said = await asyncio.wait_for(asking, 5)
        assert (status, said["error"]["code"]) == (404, "model_not_found")
        await eventually(lambda: leases(door) == 1)
        assert await left(door) == before
    await eventually(lambda: nothing_is_held(door))


async def test_a_model_that_is_gone_by_the_time_of_ones_turn_does_not_exist(start_door: StartDoor) -> None:
    backend = Shrinking()
    door = await start_door(backend, key_cache_seconds=0)
    await limited(door)
    backend.lose()
    assert door.app.door is not None
    await looked(door)
    async with door.post(ask()) as response:
        await error_of(response, 404, "model_not_found")
    await eventually(lambda: nothing_is_held(door))
    assert (await left(door))["tokens_per_day"] == 100_000


async def looked(door: RunningDoor) -> None:
    """The engine is looked at every few seconds; here it is now."""
    assert door.app.door is not None
    await door.app.door.fleet.look()


Act = Callable[[Any, User], Any]


def disable(records: Any, who: User) -> Any:
    return records.change(ACTOR, User, who.id, lambda user: msgspec.structs.replace(user, disabled=True))


def delete(records: Any, who: User) -> Any:
    return records.delete(ACTOR, User, who.id)


@pytest.mark.parametrize("act", [disable, delete])
async def test_a_user_who_is_kept_out_while_streaming_is_told_and_the_books_are_exact(
    start_door: StartDoor, act: Act
) -> None:
    door = await start_door(endless(), key_cache_seconds=0)
    await limited(door)
    who = User(id="usr_" + "a" * 24, issuer="local", subject="hana")
    await directory(door).create(ACTOR, who)
    assert door.app.door is not None
    made = await door.app.door.key_ring.issue(ACTOR, Key(id="", digest="", owner=f"user:{who.id}", name="k"))
    async with streaming(door, headers={"authorization": f"Bearer {made.key}"}) as response:
        await act(directory(door), who)
        assert events((await response.read()).decode())[-1]["error"]["code"] == "credential_revoked"
    assert door.backend.asked[0].aborted
    await eventually(lambda: nothing_is_held(door))
    account = await booked(door)
    assert (account["requests"], account["failed"], account["completion_tokens"]) == (1, 1, 1)
    taken = await quota_of(door, who)
    assert taken == account["prompt_tokens"] + 1


async def quota_of(door: RunningDoor, who: User) -> int:
    """What is booked of the daily quota, by what is stored."""
    with redis.Redis.from_url(door.settings.redis_url) as server:
        (name,) = server.keys(f"*:quota:all:tokens_per_day:*{who.id}*")
        return int(float(server.get(name).split()[0]))
