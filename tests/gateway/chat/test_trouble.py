"""What goes wrong around an answer: gateways die, Redis is away, sessions end, people leave, texts are hostile."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from backends.fake import FakeBackend, Script, chat_script
from gateway.identity.records import User, user_id
from gateway.identity.sessions import Arrival
from tests.gateway.chat.conftest import CONVERSATIONS, Told, answer, asking, begin, events, look, text_of, told
from tests.gateway.chat.test_answers import WORDS, started, until
from tests.gateway.chat.test_conversations import kept_keys
from tests.gateway.chat.test_templates import person
from tests.gateway.conftest import RunningDoor, StartDoor, error_of, eventually
from tests.gateway.test_store import Server, server

__all__ = ["server"]

HANA = User(id=user_id("local", "hana"), issuer="local", subject="hana")
BEGUN = (*chat_script(("Begun",)).steps[:2], 60.0)


def dies(door: RunningDoor) -> None:
    """As if it were killed: nothing that it was about to do is done."""
    assert door.app.door is not None
    for task in door.app.door.chat.answers._tasks:
        task.cancel()


async def test_what_a_dead_gateway_has_written_is_kept_as_failed(start_door: StartDoor) -> None:
    one = await start_door(FakeBackend(lambda body: Script(BEGUN)), lease_seconds=1)
    other = await start_door(lease_seconds=1)
    conversation = (await begin(one))["id"]
    message, last = await started(one, conversation)
    await eventually_written(other, message, last)
    following = asyncio.create_task(events(other, message))
    dies(one)
    some = await following
    assert [event.name for event in some] == ["started", "delta", "error"]
    assert [event.id for event in some] == [1, 2, 3]
    assert some[-1].data["error"]["code"] == "gateway_gone"
    kept = (await look(other, conversation))["messages"][-1]
    assert (kept["state"], kept["content"], kept["error"]["code"]) == ("failed", "Begun", "gateway_gone")
    assert (await look(one, conversation))["messages"][-1] == kept
    other.backend.answer = lambda body: chat_script((" again",))
    await answer(other, conversation, **{"continue": message})
    assert (await look(one, conversation))["messages"][-1]["content"] == "Begun again"


async def test_whoever_looks_first_finds_an_answer_of_a_dead_gateway_failed(start_door: StartDoor) -> None:
    one = await start_door(FakeBackend(lambda body: Script(BEGUN)), lease_seconds=1)
    conversation = (await begin(one))["id"]
    message, last = await started(one, conversation)
    await eventually_written(one, message, last)
    dies(one)
    kept = await until(one, conversation, "failed")
    assert (kept["content"], kept["error"]["code"]) == ("Begun", "gateway_gone")
    assert one.app.door is not None
    await one.app.door.store.command("DEL", *[name for name in await kept_keys(one) if ":answer" in name])
    assert (await look(one, conversation))["messages"][-1] == kept


async def test_readers_of_an_answer_that_cannot_be_written_do_not_wait(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script(BEGUN)))
    assert door.app.door is not None
    conversation = (await begin(door))["id"]
    message, _ = await started(door, conversation)
    reading = asyncio.create_task(events(door, message))
    (running,) = door.app.door.chat.answers._running.values()
    await eventually(lambda: running.readers == 1, 5)

    def breaks() -> None:
        raise RuntimeError("a fault of ours")

    running._gather = breaks  # type: ignore[method-assign]
    async with asyncio.timeout(20):
        assert [event.name for event in await reading] == ["started", "delta"]


async def test_a_gateway_that_is_stopped_says_so_at_once(start_door: StartDoor) -> None:
    one = await start_door(FakeBackend(lambda body: Script(BEGUN)))
    other = await start_door()
    conversation = (await begin(one))["id"]
    await started(one, conversation)
    assert one.app.door is not None
    await one.app.door.chat.answers.aclose()
    kept = (await look(other, conversation))["messages"][-1]
    assert (kept["state"], kept["content"], kept["error"]["code"]) == ("failed", "Begun", "gateway_stopped")


async def test_an_answer_outlives_an_absence_of_redis(start_door: StartDoor, server: Server) -> None:
    fake = FakeBackend(lambda body: chat_script(WORDS, gap=0.02))
    door = await start_door(fake, redis_url=server.url, redis_timeout=0.3)
    conversation = (await begin(door))["id"]
    some: list[Told] = []
    async with asking(door, conversation, content="x") as response:
        async for event in told(response):
            some.append(event)
            if event.name == "delta" and len(some) == 2:
                server.freeze()
    server.thaw()
    assert (text_of(some), some[-1].name) == ("".join(WORDS), "done")
    message = some[0].data["message"]["id"]
    assert door.app.door is not None
    await eventually(lambda: not door.app.door.chat.answers._running, 10)  # type: ignore[union-attr]
    assert (await until(door, conversation, "done"))["content"] == "".join(WORDS)
    assert await events(door, message) == some


async def test_the_end_of_a_session_ends_its_answer_and_keeps_what_was_said(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script(BEGUN)))
    assert door.app.door is not None
    await door.app.door.directory.create(None, HANA)
    token, session = await door.app.door.sessions.begin(Arrival(HANA.id, HANA.issuer, "", ""))
    headers = {"cookie": f"sekisho={token}", "origin": door.url}
    async with aiohttp.ClientSession(door.url, headers=headers) as browser, asyncio.timeout(20):
        async with browser.post(CONVERSATIONS, json={}, headers={"origin": "http://evil.example"}) as response:
            await error_of(response, 403, "foreign_origin")
        async with browser.post(CONVERSATIONS, json={}) as response:
            conversation = (await response.json())["id"]
        path = f"{CONVERSATIONS}/{conversation}/answers"
        async with browser.post(path, json={"model": "fake", "content": "x"}) as response:
            some = []
            async for event in told(response):
                some.append(event)
                if event.name == "delta":
                    await door.app.door.sessions.end(session.id)
    assert some[-1].data["error"]["code"] == "credential_revoked"
    assert door.backend.asked[0].aborted
    kept = (await door.app.door.chat.book.find(HANA.id, conversation)).messages[-1]
    assert (kept.state, kept.content) == ("failed", "Begun")


async def test_conversations_go_with_the_person(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: Script(BEGUN)))
    headers = await person(door, "Hana")
    async with door.client.post(CONVERSATIONS, json={"title": "Mine"}, headers=headers) as response:
        conversation = (await response.json())["id"]
    body = {"model": "fake", "content": "x"}
    async with door.client.post(f"{CONVERSATIONS}/{conversation}/answers", json=body, headers=headers) as response:
        async for event in told(response):
            if event.name == "delta":
                break
    async with door.client.delete(f"/admin/v1/users/{user_id('local', 'Hana')}") as response:
        assert response.status == 200
    await eventually(lambda: door.backend.asked[0].aborted, 5)
    assert await kept_keys(door) == []


async def test_what_is_somebody_elses_is_not_there_for_anybody_else(door: RunningDoor) -> None:
    aki, bo = await person(door, "Aki"), await person(door, "Bo")
    async with door.client.post(CONVERSATIONS, json={"title": "Aki's"}, headers=aki) as response:
        conversation = (await response.json())["id"]
    path, body = f"{CONVERSATIONS}/{conversation}", {"model": "fake", "content": "x"}
    async with door.client.post(f"{path}/answers", json=body, headers=aki) as response:
        some = [event async for event in told(response)]
    message = some[0].data["message"]["id"]
    requests: list[tuple[str, str, Any]] = [
        ("GET", path, None),
        ("PATCH", path, {"title": "Bo's"}),
        ("DELETE", path, None),
        ("GET", f"{path}/export", None),
        ("POST", f"{path}/answers", body),
        ("GET", f"/chat/v1/answers/{message}/events", None),
        ("POST", f"/chat/v1/answers/{message}/stop", None),
    ]
    for method, where, sent in requests:
        for headers in (bo, {}):  # somebody else, and an administrator
            async with door.client.request(method, where, json=sent, headers=headers) as response:
                await error_of(response, 404, "not_found")
    for headers in (bo, {}):
        async with door.client.delete(CONVERSATIONS, headers=headers) as response:
            assert response.status == 200
        async with door.client.get(CONVERSATIONS, headers=headers) as response:
            assert (await response.json())["data"] == []
    async with door.client.get(path, headers=aki) as response:
        assert (await response.json())["title"] == "Aki's"


@pytest.mark.parametrize("path", ["conversations/{}", "answers/{}/events", "conversations/{}/export"])
async def test_an_id_that_is_none_of_ours_is_a_404(door: RunningDoor, path: str) -> None:
    for strange in ("x", "conv_" + "0" * 36, "msg_" + "f" * 36, "..%2F..", "conv_%0A", "a/b/c", "%00", "*"):
        async with door.client.get(f"/chat/v1/{path.format(strange)}") as response:
            await error_of(response, 404)


HOSTILE = (
    "a\n\nid: 99\nevent: done\ndata: {}\n\n",
    "\r\rdata: [DONE]\r\n",
    "\u0000\u0001\u007f\u2028\u2029\ufeff",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\u202eesrever\u2066 \u200b",
    "👩‍👩‍👧‍👦" * 50,
    "{sekisho}:chat:*",
    "' OR 1=1 --",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_texts_come_back_as_they_were_and_do_nothing(door: RunningDoor, text: str) -> None:
    door.backend.answer = lambda body: chat_script((text, text))
    conversation = (await begin(door, system=text))["id"]
    some = await answer(door, conversation, content=text)
    assert text_of(some) == text * 2
    assert [event.id for event in some] == list(range(1, len(some) + 1))
    kept = await look(door, conversation)
    assert [message["content"] for message in kept["messages"]] == [text, text * 2]
    assert kept["system"] == text
    assert kept["title"].isprintable()
    assert len(kept["title"]) <= 61
    assert await events(door, some[0].data["message"]["id"]) == some


async def eventually_written(door: RunningDoor, message: str, last: int) -> None:
    """Until Redis has heard so many events."""
    assert door.app.door is not None
    for _ in range(500):
        if await door.app.door.store.command("LLEN", f"{{sekisho}}:answer-events:{message}") >= last:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("was not written")
