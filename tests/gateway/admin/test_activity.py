"""What went on in the last minutes, as administrators see it: of all gateways, and of answers under way."""

from __future__ import annotations

import asyncio
from typing import Any

import redis

from backends.base import Load
from backends.fake import FakeBackend
from gateway.identity.records import Key, ServiceAccount
from gateway.store import keys
from tests.gateway.admin.conftest import ACTOR, answer
from tests.gateway.admin.test_queue import gated, streaming
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually


async def activity(door: RunningDoor, query: str = "") -> dict[str, Any]:
    """After the gateway has told of what was until now."""
    assert door.app.door is not None
    await door.app.door.activity.tell()
    return dict(await answer(door, "GET", f"/activity{query}"))


async def program(door: RunningDoor, name: str, **limits: Any) -> dict[str, str]:
    assert door.app.door is not None
    await door.app.door.directory.create(None, ServiceAccount(id=name, name=name.title()))
    draft = Key(id="", digest="", owner=f"service_account:{name}", name=name, **limits)
    made = await door.app.door.key_ring.issue(ACTOR, draft)
    return {"authorization": f"Bearer {made.key}"}


async def booked(door: RunningDoor) -> None:
    assert door.app.door is not None
    booking = door.app.door.booking
    await eventually(lambda: not booking.open and not booking.unbooked)


async def test_an_answer_counts_for_its_model_its_engine_and_whoever_asked(door: RunningDoor) -> None:
    headers = await program(door, "robot")
    async with door.post(ask(), headers=headers) as response:
        usage = (await response.json())["usage"]
    await booked(door)
    found = await activity(door)
    (model,), (backend,), (subject,) = found["models"], found["backends"], found["subjects"]
    for one in (model, backend, subject, found["total"]):
        assert one["prompt_tokens"] == usage["prompt_tokens"]
        assert one["completion_tokens"] == usage["completion_tokens"]
        assert one["counted_prompt_tokens"] == usage["prompt_tokens"]
        assert one["completion_tokens_per_second"] > 0
    assert (model["id"], backend["name"], subject["id"], subject["name"]) == ("fake", "fake", "robot", "Robot")
    assert (model["requests"], model["failed"]) == (1, 0)
    assert 0 < model["ttft_p50"] <= model["ttft_p95"]
    assert model["goodput"] == 1.0
    assert subject["completion_tokens_today"] == usage["completion_tokens"]


async def test_an_answer_under_way_is_seen_before_it_ends_and_counted_once(start_door: StartDoor) -> None:
    gate = asyncio.Event()
    door = await start_door(gated(gate))
    async with streaming(door):
        (subject,) = (await activity(door))["subjects"]
        assert (subject["completion_tokens"], subject["completion_tokens_today"]) == (1, 0)
        assert subject["prompt_tokens"] > subject["counted_prompt_tokens"] == 0
        assert subject["name"]
        gate.set()
    await booked(door)
    (subject,) = (await activity(door))["subjects"]
    assert (subject["completion_tokens"], subject["completion_tokens_today"]) == (1, 1)


async def test_batch_work_which_waits_by_design_is_in_no_time(door: RunningDoor) -> None:
    headers = await program(door, "robot", queue_class="batch")
    async with door.post(ask(), headers=headers) as response:
        assert response.status == 200
    await booked(door)
    (model,) = (await activity(door))["models"]
    assert (model["requests"], model["ttft_p95"], model["goodput"]) == (1, None, None)


async def test_whichever_gateway_is_asked_answers_for_all(start_door: StartDoor) -> None:
    one, other = await start_door(), await start_door()
    for door in (one, one, other):
        async with door.post(ask()) as response:
            assert response.status == 200
    for door in (one, other):
        await booked(door)
        await activity(door)
    for door in (one, other):
        found = await activity(door)
        assert (found["gateways"], found["total"]["requests"]) == (2, 3)


async def test_a_gateway_that_fell_silent_no_longer_counts(door: RunningDoor) -> None:
    with redis.Redis.from_url(door.settings.redis_url) as server:
        server.hset(keys.ACTIVITY, "gone", b"1 whatever it told")
        server.hset(keys.ACTIVITY, "newer", b"99999999999999 of another release")
        assert (await activity(door))["gateways"] == 1
        assert b"gone" not in server.hkeys(keys.ACTIVITY)
        assert 0 < server.pttl(keys.ACTIVITY) <= 10_000


async def test_refusals_are_told_by_their_code(door: RunningDoor) -> None:
    async with door.post(ask(), headers={"authorization": "Bearer sk-skh-none"}) as response:
        code = (await error_of(response, 401))["code"]
    async with door.post(ask(model="unknown")) as response:
        await error_of(response, 404, "model_not_found")
    assert (await activity(door))["failures"] == {code: 1, "model_not_found": 1}


async def test_preemptions_are_those_since_it_was_first_looked(start_door: StartDoor) -> None:
    class Pressed(FakeBackend):
        preempted = 40

        async def load(self) -> Load:
            return Load(running=0, preemptions=self.preempted)

    backend = Pressed()
    door = await start_door(backend)
    assert door.app.door is not None
    members = door.app.door.fleet.members
    (member,) = members.values()
    await eventually(lambda: member.load.preemptions == 40)
    assert [one["preemptions"] for one in (await activity(door))["backends"]] == [0]
    member.load = Load(running=0, preemptions=43)
    assert [one["preemptions"] for one in (await activity(door))["backends"]] == [3]


async def test_no_more_people_are_shown_than_are_asked_for(door: RunningDoor) -> None:
    for name in ("robot", "crawler"):
        async with door.post(ask(), headers=await program(door, name)) as response:
            assert response.status == 200
    await booked(door)
    found = await activity(door, "?limit=1")
    assert (len(found["subjects"]), found["has_more"]) == (1, True)
    async with door.client.get("/admin/v1/activity?limit=1001") as response:
        await error_of(response, 400)


async def test_a_gateway_tells_by_itself(door: RunningDoor) -> None:
    with redis.Redis.from_url(door.settings.redis_url) as server:
        await eventually(lambda: server.exists(keys.ACTIVITY), seconds=20)
