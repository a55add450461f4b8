"""Conversations: a tree of messages that is kept for its owner alone."""

from __future__ import annotations

import json
from typing import Any

from backends.fake import chat_script
from tests.gateway.chat.conftest import CONVERSATIONS, answer, asking, begin, look, text_of
from tests.gateway.conftest import RunningDoor, StartDoor, error_of


async def test_a_question_is_answered_and_both_are_kept(door: RunningDoor) -> None:
    conversation = (await begin(door, system="Be brief.", parameters={"temperature": 0.5}))["id"]
    told = await answer(door, conversation, content="What is\nthis?", parameters={"top_p": 0.5})
    assert [event.id for event in told] == list(range(1, len(told) + 1))
    assert (told[0].name, told[-1].name) == ("started", "done")
    assert text_of(told) == "Hello, world."
    assert told[-1].data["usage"] == {"prompt_tokens": 5, "completion_tokens": 4}
    kept = await look(door, conversation)
    question, reply = kept["messages"]
    assert (question["role"], question["parent"], question["content"]) == ("user", None, "What is\nthis?")
    assert (reply["role"], reply["parent"], reply["content"]) == ("assistant", question["id"], "Hello, world.")
    assert (reply["state"], reply["finish_reason"], reply["model"]) == ("done", "stop", "fake")
    assert (kept["head"], kept["title"], kept["model"]) == (reply["id"], "What is", "fake")
    assert told[0].data["message"]["id"] == reply["id"]
    assert told[0].data["user_message"]["id"] == question["id"]
    asked = json.loads(door.backend.asked[0].body)
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is\nthis?"},
    ]
    assert (asked["temperature"], asked["top_p"]) == (0.5, 0.5)
    assert door.backend.asked[0].headers["x-sekisho-class"] == "interactive"


async def test_branches_are_kept_and_each_is_asked_with_what_leads_to_it(door: RunningDoor) -> None:
    conversation = (await begin(door))["id"]
    first = (await answer(door, conversation, content="One"))[0].data
    again = (await answer(door, conversation, parent=first["user_message"]["id"]))[0].data
    await answer(door, conversation, parent=first["message"]["id"], content="Two")
    edited = (await answer(door, conversation, content="One, edited"))[0].data
    kept = await look(door, conversation)
    assert [len(json.loads(asked.body)["messages"]) for asked in door.backend.asked] == [1, 1, 3, 1]
    assert again["message"]["parent"] == first["user_message"]["id"]
    assert kept["head"] == edited["message"]["id"]
    assert [message["parent"] for message in kept["messages"] if message["role"] == "user"] == [
        None,
        first["message"]["id"],
        None,
    ]
    async with door.client.patch(f"{CONVERSATIONS}/{conversation}", json={"head": again["message"]["id"]}) as response:
        assert (await response.json())["head"] == again["message"]["id"]


async def test_a_cut_answer_goes_on_where_it_ended(door: RunningDoor) -> None:
    door.backend.answer = lambda body: chat_script((" and on.",) if b"continue_final_message" in body else ("On",))
    conversation = (await begin(door))["id"]
    cut = (await answer(door, conversation, content="Go on"))[0].data["message"]["id"]
    told = await answer(door, conversation, **{"continue": cut})
    assert (told[0].data["message"]["id"], told[0].data["message"]["content"]) == (cut, "On")
    kept = (await look(door, conversation))["messages"]
    assert [message["content"] for message in kept] == ["Go on", "On and on."]
    assert json.loads(door.backend.asked[-1].body)["messages"][-1] == {"role": "assistant", "content": "On"}


async def test_what_is_asked_has_to_fit_the_tree(door: RunningDoor) -> None:
    conversation = (await begin(door))["id"]
    first = (await answer(door, conversation, content="One"))[0].data
    question, reply = first["user_message"]["id"], first["message"]["id"]
    wrong: list[tuple[dict[str, Any], int, str | None]] = [
        ({"content": "x", "parent": question}, 400, "parent"),
        ({"content": "x", "parent": "msg_unknown"}, 404, "parent"),
        ({"parent": reply}, 400, "parent"),
        ({}, 400, None),
        ({"continue": question}, 400, "continue"),
        ({"continue": reply, "content": "x"}, 400, "content"),
        ({"content": ""}, 400, "content"),
        ({"content": "x", "model": ""}, 400, "model"),
        ({"content": "x", "parameters": {"temperature": 3}}, 400, "parameters.temperature"),
        ({"content": "x", "parameters": {"priority": 1}}, 400, "parameters"),
        ({"content": "x", "frobnicate": 1}, 400, "frobnicate"),
    ]
    for fields, status, param in wrong:
        async with asking(door, conversation, **fields) as response:
            assert (await error_of(response, status))["param"] == param, fields
    assert len(door.backend.asked) == 1


async def test_lists_come_newest_first_page_by_page(door: RunningDoor) -> None:
    made = [(await begin(door, title=f"Number {number}"))["id"] for number in range(5)]
    await answer(door, made[1], content="This makes it the newest")
    expected = [made[1], made[4], made[3], made[2], made[0]]
    found: list[str] = []
    query = {"limit": "2"}
    while query:
        async with door.client.get(CONVERSATIONS, params=query) as response:
            page = await response.json()
        found += [one["id"] for one in page["data"]]
        assert page["has_more"] == (page["next"] is not None)
        query = {"limit": "2", "after": page["next"]} if page["next"] else {}
    assert found == expected


async def test_a_search_finds_titles_and_texts_however_wide_and_high_their_letters_are(door: RunningDoor) -> None:
    titled = (await begin(door, title="Ｋａｎｂａｎ planning"))["id"]
    asked = (await begin(door, title="Other"))["id"]
    await answer(door, asked, content="カンバンとは何ですか")
    await begin(door, title="Neither")
    for sought, expected in (("KANBAN", {titled}), ("ｶﾝﾊﾞﾝ", {asked}), ("hello, WORLD", {asked}), ("nowhere", set())):
        async with door.client.get(CONVERSATIONS, params={"search": sought}) as response:
            assert {one["id"] for one in (await response.json())["data"]} == expected, sought


async def test_what_is_deleted_is_gone_with_all_that_readers_were_told(door: RunningDoor) -> None:
    conversation, other = (await begin(door))["id"], (await begin(door))["id"]
    told = await answer(door, conversation, content="Forget me")
    await answer(door, other, content="Me too")
    async with door.client.delete(f"{CONVERSATIONS}/{conversation}") as response:
        assert response.status == 200
    async with door.client.get(f"{CONVERSATIONS}/{conversation}") as response:
        await error_of(response, 404)
    async with door.client.get(f"/chat/v1/answers/{told[0].data['message']['id']}/events") as response:
        await error_of(response, 404)
    async with door.client.delete(f"{CONVERSATIONS}/{conversation}") as response:
        await error_of(response, 404)
    async with door.client.delete(CONVERSATIONS) as response:
        assert response.status == 200
    assert await kept_keys(door) == []


async def test_nothing_that_people_write_can_be_read_in_redis(door: RunningDoor) -> None:
    conversation = (await begin(door, title="Top secret", system="Geheim"))["id"]
    await answer(door, conversation, content="Confidential")
    assert door.app.door is not None
    data = b""
    for key in await kept_keys(door):
        data += await door.app.door.store.command("DUMP", key)
    assert len(data) > 1000
    for text in (b"secret", b"Geheim", b"Confidential", b"world"):
        assert text not in data


async def test_everything_has_an_end_that_use_puts_off(start_door: StartDoor) -> None:
    door = await start_door(chat_retention_days=2)
    conversation = (await begin(door))["id"]
    assert door.app.door is not None
    store = door.app.door.store
    for key in await kept_keys(door):
        await store.command("PEXPIRE", key, 60_000)
    await answer(door, conversation, content="Used")
    lives = {key: await store.command("TTL", key) for key in await kept_keys(door)}
    assert all(life > 0 for life in lives.values()), lives
    assert {round(life / 86_400) for key, life in lives.items() if ":chat" in key} == {2}
    await store.command("PEXPIRE", f"{{sekisho}}:chat:{conversation}", 0)
    async with door.client.get(CONVERSATIONS) as response:
        assert (await response.json())["data"] == []


async def test_a_conversation_is_exported_as_it_was_written(door: RunningDoor) -> None:
    conversation = (await begin(door, title="<script>alert(1)</script>"))["id"]
    await answer(door, conversation, content="# Hi\n\n![x](javascript:alert(1))")
    async with door.client.get(f"{CONVERSATIONS}/{conversation}/export?format=markdown") as response:
        text = await response.text()
        assert response.headers["content-type"] == "text/markdown; charset=utf-8"
        assert response.headers["content-disposition"] == f'attachment; filename="{conversation}.md"'
        assert response.headers["x-content-type-options"] == "nosniff"
    assert "## User\n\n# Hi\n\n![x](javascript:alert(1))\n\n## Assistant (fake)\n\nHello, world." in text
    async with door.client.get(f"{CONVERSATIONS}/{conversation}/export") as response:
        assert await response.json() == await look(door, conversation)


async def test_there_is_an_end_to_everything(start_door: StartDoor) -> None:
    door = await start_door(chat_max_conversations=2, chat_max_messages=4, chat_max_message_bytes=1024)
    conversation = (await begin(door))["id"]
    second = (await begin(door))["id"]
    async with door.client.post(CONVERSATIONS, json={}) as response:
        await error_of(response, 400, "too_many_conversations")
    async with asking(door, conversation, content="あ" * 342) as response:
        await error_of(response, 400, "message_too_long")
    for _ in range(2):
        await answer(door, conversation, content="x")
    async with asking(door, conversation, content="x") as response:
        await error_of(response, 400, "conversation_full")
    async with door.client.post(CONVERSATIONS, json={"title": "x" * 121}) as response:
        await error_of(response, 400)
    async with door.client.post(CONVERSATIONS, data=b"[" * 50_000) as response:
        await error_of(response, 400)
    assert door.app.door is not None
    await door.app.door.store.command("DEL", f"{{sekisho}}:chat:{second}")  # what has expired takes no room
    await begin(door)


async def test_one_person_keeps_only_so_much_and_has_room_again_after_deleting_and_expiry(
    start_door: StartDoor,
) -> None:
    door = await start_door(chat_max_person_bytes=20_000)
    first, second = (await begin(door))["id"], (await begin(door))["id"]
    await answer(door, first, content="x" * 8000)
    async with door.client.patch(f"{CONVERSATIONS}/{second}", json={"system": "y" * 8000}) as response:
        assert "conversations_full" in await response.text()
    async with asking(door, second, content="x" * 8000) as response:
        assert "Delete some" in (await error_of(response, 400, "conversations_full"))["message"]
    async with door.client.post(CONVERSATIONS, json={"system": "y" * 8000}) as response:
        await error_of(response, 400, "conversations_full")
    await answer(door, second, content="short")
    async with door.client.delete(f"{CONVERSATIONS}/{first}") as response:
        assert response.status == 200
    await answer(door, second, content="x" * 8000)
    assert door.app.door is not None
    await door.app.door.store.command("DEL", f"{{sekisho}}:chat:{second}")  # as when it expires
    third = (await begin(door, system="y" * 8000))["id"]
    async with asking(door, third, content="x" * 8000) as response:
        await error_of(response, 400, "conversations_full")


async def kept_keys(door: RunningDoor) -> list[str]:
    assert door.app.door is not None
    names = [name.decode() for name in await door.app.door.store.command("KEYS", "*")]
    return [name for name in names if name.startswith(("{sekisho}:chat", "{sekisho}:answer"))]
