"""What operators should act on now, as the admin API tells it."""

from __future__ import annotations

import redis

from backends.base import Load
from backends.fake import FakeBackend
from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import RunningDoor, StartDoor, eventually


async def test_a_gateway_on_which_all_is_well_alerts_nobody(door: RunningDoor) -> None:
    found = await answer(door, "GET", "/alerts")
    assert (found["object"], found["data"]) == ("list", [])


async def test_what_an_engine_says_of_itself_becomes_an_alert(start_door: StartDoor) -> None:
    class Full(FakeBackend):
        async def load(self) -> Load:
            return Load(running=0, kv_use=0.97)

    door = await start_door(Full())
    assert door.app.door is not None
    (member,) = door.app.door.fleet.members.values()
    await eventually(lambda: member.load.kv_use == 0.97)
    (found,) = (await answer(door, "GET", "/alerts"))["data"]
    assert (found["code"], found["values"]) == ("kv_full", {"backend": "fake", "share": 0.97})


async def test_alerts_are_told_while_redis_is_away(start_door: StartDoor, redis_url: str) -> None:
    door = await start_door()
    await answer(door, "GET", "/alerts")
    with redis.Redis.from_url(redis_url) as server:
        server.execute_command("SET", "{sekisho}:activity", "of another type")
        assert [one["code"] for one in (await answer(door, "GET", "/alerts"))["data"]] == ["store_away"]
