"""Answers: they go on while nobody looks, and any gateway tells what was missed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from backends.errors import Broken
from backends.fake import FakeBackend, Script, chat_chunk, chat_script, event, usage_chunk
from tests.gateway.chat.conftest import CONVERSATIONS, Told, answer, asking, begin, events, look, text_of, told
from tests.gateway.conftest import RunningDoor, StartDoor, ask, error_of, eventually

WORDS = tuple(f"word{number} " for number in range(40))


async def started(door: RunningDoor, conversation: str, **fields: Any) -> tuple[str, Any]:
    """An answer whose reader leaves once it says something."""
    async with asking(door, conversation, content="Long?", **fields) as response:
        async for one in told(response):
            if one.name == "started":
                message = one.data["message"]["id"]
            if one.name == "delta":
                return message, one.id
    raise AssertionError("it ended")


async def until(door: RunningDoor, conversation: str, state: str) -> dict[str, Any]:
    """The answer of a conversation, once it is in this state."""
    for _ in range(500):
        message = (await look(door, conversation))["messages"][-1]
        if message["state"] == state:
            return dict(message)
        await asyncio.sleep(0.02)
    raise AssertionError(message)


async def test_a_reader_who_leaves_finds_all_of_it_when_they_come_back(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(WORDS, gap=0.02)))
    conversation = (await begin(door))["id"]
    message, last = await started(door, conversation)
    behind = await events(door, message, headers={"last-event-id": str(last)})
    assert behind[0].id == last + 1
    kept = await until(door, conversation, "done")
    assert kept["content"] == "".join(WORDS)
    whole = await events(door, message)
    assert text_of(whole) == "".join(WORDS)
    assert whole[last:] == behind
    assert await events(door, message, params={"from": str(last + 1)}) == behind


async def test_a_reader_may_change_doors_in_the_middle(start_door: StartDoor) -> None:
    one = await start_door(FakeBackend(lambda body: chat_script(WORDS, gap=0.03)))
    other = await start_door()
    conversation = (await begin(one))["id"]
    message, last = await started(one, conversation)
    there = asyncio.create_task(events(other, message, params={"from": str(last + 1)}))
    here = await events(one, message, params={"from": str(last + 1)})
    assert await there == here
    assert len(here) > 3
    for number in range(1, len(here)):
        assert await events(other, message, params={"from": str(last + number)}) == here[number - 1 :]
    assert other.backend.asked == []


async def test_a_conversation_can_be_looked_at_while_its_answer_is_written(start_door: StartDoor) -> None:
    one = await start_door(FakeBackend(lambda body: chat_script(WORDS, gap=0.05)))
    other = await start_door()
    conversation = (await begin(one))["id"]
    await started(one, conversation)
    for door in (one, other):
        message = (await look(door, conversation))["messages"][-1]
        assert message["state"] == "running"
        assert "".join(WORDS).startswith(message["content"])
    async with asking(other, conversation, content="And?", parent=message["id"]) as response:
        await error_of(response, 409, "still_running")
    async with asking(other, conversation, **{"continue": message["id"]}) as response:
        await error_of(response, 409, "still_running")


@pytest.mark.parametrize("at", ["the same door", "another door"])
async def test_stopping_ends_the_request_at_the_engine_and_keeps_what_was_said(start_door: StartDoor, at: str) -> None:
    one = await start_door(FakeBackend(lambda body: chat_script(WORDS, gap=1.0)))
    one.backend.answer = lambda body: Script([*chat_script(("Begun",)).steps[:2], 60.0])
    other = await start_door() if at == "another door" else one
    conversation = (await begin(one))["id"]
    async with asking(one, conversation, content="Long?") as response:
        some: list[Told] = []
        async for one_event in told(response):
            some.append(one_event)
            if one_event.name == "delta":
                async with other.client.post(f"/chat/v1/answers/{some[0].data['message']['id']}/stop") as stopped:
                    assert stopped.status == 200
    assert (some[-1].name, some[-1].data["state"]) == ("done", "stopped")
    await eventually(lambda: one.backend.asked[0].aborted, 5)
    kept = (await look(other, conversation))["messages"][-1]
    assert (kept["state"], kept["content"], kept["finish_reason"]) == ("stopped", "Begun", "stopped")


async def test_what_nobody_reads_is_stopped_after_a_while(start_door: StartDoor) -> None:
    door = await start_door(chat_unread_minutes=0.02)
    door.backend.answer = lambda body: Script([*chat_script(("Begun",)).steps[:2], 60.0])
    conversation = (await begin(door))["id"]
    await started(door, conversation)
    kept = await until(door, conversation, "stopped")
    assert (kept["content"], kept["finish_reason"]) == ("Begun", "unread")
    assert door.backend.asked[0].aborted


async def test_a_failure_keeps_what_was_said_and_says_what_happened(start_door: StartDoor) -> None:
    door = await start_door(recovery_timeout=0)
    door.backend.answer = lambda body: Script([event(chat_chunk({"content": "Half"})), Broken("gone")])
    conversation = (await begin(door))["id"]
    some = await answer(door, conversation, content="x")
    assert (some[-1].name, some[-1].data["error"]["code"]) == ("error", "engine_error")
    kept = (await look(door, conversation))["messages"][-1]
    assert (kept["state"], kept["content"], kept["error"]) == ("failed", "Half", some[-1].data["error"])


async def test_a_refusal_is_told_as_an_event_with_its_code(door: RunningDoor) -> None:
    conversation = (await begin(door))["id"]
    some = await answer(door, conversation, content="x", model="other")
    assert [one.name for one in some] == ["started", "error"]
    assert (some[-1].data["error"]["code"], some[-1].data["error"]["param"]) == ("model_not_found", "model")
    long = await answer(door, conversation, content="word " * 20_000)
    assert long[-1].data["error"]["code"] == "context_length_exceeded"
    assert "4096" in long[-1].data["error"]["message"]
    assert door.backend.asked == []


async def test_places_in_the_queue_are_told_while_they_change(start_door: StartDoor) -> None:
    door = await start_door(max_concurrency=1)
    door.backend.answer = lambda body: chat_script(("x",), delay=1.0)
    conversation = (await begin(door))["id"]
    before = asyncio.create_task(_read(door.post(ask())))
    await eventually(lambda: len(door.backend.asked) == 1)
    some = await answer(door, conversation, content="x")
    assert some[1].data["position"] == 1
    assert [one.name for one in some] == ["started", "queue", "delta", "done"]
    await before


async def test_an_answer_that_moves_to_another_engine_says_so_once(start_door: StartDoor) -> None:
    def first(body: bytes) -> Script:
        return Script([event(chat_chunk({"content": "Half "})), Broken("gone")])

    engines = {"a": FakeBackend(first, name="a"), "b": FakeBackend(lambda body: chat_script(("whole",)), name="b")}
    for engine in engines.values():
        engine.continues = True
    backends = [{"name": name, "kind": "fake", "url": "http://x", "tier": tier} for tier, name in enumerate("ab")]
    door = await start_door(engines=engines, backends=backends)
    conversation = (await begin(door))["id"]
    some = await answer(door, conversation, content="x")
    assert [one.name for one in some] == ["started", "delta", "notice", "delta", "done"]
    assert some[2].data == {"kind": "moved"}
    assert text_of(some) == "Half whole"


async def test_thoughts_are_told_apart_and_not_sent_back(door: RunningDoor) -> None:
    steps = [event(chat_chunk({"reasoning_content": "Hm"})), event(chat_chunk({"content": "Yes"}, finish="stop"))]
    door.backend.answer = lambda body: Script([*steps, event(usage_chunk(3, 2)), b"data: [DONE]\n\n"])
    conversation = (await begin(door))["id"]
    some = await answer(door, conversation, content="x")
    assert [one.data for one in some if one.name == "delta"] == [{"reasoning": "Hm"}, {"text": "Yes"}]
    reply = (await look(door, conversation))["messages"][-1]
    assert (reply["reasoning"], reply["content"]) == ("Hm", "Yes")
    await answer(door, conversation, parent=reply["id"], content="Why?")
    assert b"Hm" not in door.backend.asked[-1].body


async def test_an_answer_of_a_deleted_conversation_is_ended(start_door: StartDoor) -> None:
    door = await start_door()
    door.backend.answer = lambda body: Script([*chat_script(("Begun",)).steps[:2], 60.0])
    conversation = (await begin(door))["id"]
    await started(door, conversation)
    async with door.client.delete(f"{CONVERSATIONS}/{conversation}") as response:
        assert response.status == 200
    await eventually(lambda: door.backend.asked[0].aborted, 5)
    assert door.app.door is not None
    assert await door.app.door.store.command("KEYS", "*answer*") == []


async def test_where_the_browser_keeps_conversations_nothing_stays_here(start_door: StartDoor) -> None:
    door = await start_door(chat_storage="browser", chat_unread_minutes=0.05)
    async with door.client.post(CONVERSATIONS, json={}) as response:
        await error_of(response, 409, "kept_in_the_browser")
    body = {"model": "fake", "messages": [{"role": "user", "content": "Hi"}], "parameters": {"temperature": 0}}
    async with door.client.post("/chat/v1/answers", json=body) as response:
        some = [one async for one in told(response)]
    assert text_of(some) == "Hello, world."
    assert await events(door, some[0].data["message"]["id"]) == some
    assert door.app.door is not None
    for _ in range(500):
        if not (names := await door.app.door.store.command("KEYS", "*answer*")):
            break
        await asyncio.sleep(0.02)
    assert not names
    assert await door.app.door.store.command("KEYS", "*chat*") == []


async def test_an_answer_that_the_browser_keeps_goes_on_where_it_was_cut(start_door: StartDoor) -> None:
    door = await start_door(chat_storage="browser")
    said = [{"role": "user", "content": "Count"}, {"role": "assistant", "content": "One, "}]
    body = {"model": "fake", "messages": said, "continue": True}
    async with door.client.post("/chat/v1/answers", json=body) as response:
        some = [one async for one in told(response)]
    assert some[0].data["message"]["content"] == "One, "
    assert text_of(some) == "Hello, world."
    sent = json.loads(door.backend.asked[-1].body)
    assert (sent["messages"], sent["continue_final_message"], sent["add_generation_prompt"]) == (said, True, False)
    for messages in (said[:1], [said[0], {"role": "assistant", "content": ""}]):
        async with door.client.post("/chat/v1/answers", json=body | {"messages": messages}) as response:
            assert (await error_of(response, 400))["param"] == "continue"


async def test_how_many_answers_are_written_is_a_metric(start_door: StartDoor) -> None:
    door = await start_door()
    door.backend.answer = lambda body: Script([*chat_script(("Begun",)).steps[:2], 60.0])
    conversation = (await begin(door))["id"]
    message, _ = await started(door, conversation)  # and its reader has left
    assert "sekisho_chat_answers_running 1.0" in await metrics(door)
    async with door.client.post(f"/chat/v1/answers/{message}/stop"):
        await until(door, conversation, "stopped")
    for _ in range(500):
        if "sekisho_chat_answers_running 0.0" in (text := await metrics(door)):
            break
        await asyncio.sleep(0.02)
    assert "sekisho_chat_answers_running 0.0" in text


async def metrics(door: RunningDoor) -> str:
    async with door.client.get("/metrics") as response:
        return await response.text()


async def _read(response: Any) -> None:
    async with response as answered:
        await answered.read()
