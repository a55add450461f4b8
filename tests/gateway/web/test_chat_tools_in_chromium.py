"""What stands around the chat's field, as a person uses it: templates, options, and what is told beside an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from backends.errors import Broken
from backends.fake import FakeBackend, Script, chat_chunk, chat_script, event
from tests.gateway.chromium import faults_of_access, picture
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor
from tests.gateway.web.chatting import OpenChat, answer, ask, asked, chat_door, field, finished, open_chat

__all__ = ["chat_door", "open_chat"]
pytestmark = pytest.mark.slow


def sent(door: RunningDoor) -> dict[str, Any]:
    """What the engine was asked last."""
    return dict(json.loads(door.backend.asked[-1].body))


async def template(page: Page, name: str, text: str) -> None:
    """Fills in the form of one, which is open."""
    form = page.locator("dialog").last
    if await form.get_by_label("Name").is_editable():
        await form.get_by_label("Name").fill(name)
    await form.get_by_label("Text").fill(text)
    await form.get_by_role("button", name="Save").click()


async def test_a_template_is_written_used_changed_and_deleted(open_chat: OpenChat) -> None:
    page = await open_chat()
    await page.get_by_role("button", name="Prompt templates").click()
    shown = page.locator("dialog").first
    await expect(shown).to_contain_text("None yet.")
    await shown.get_by_role("button", name="New template").click()
    await template(page, "a/b", "x")
    await expect(page.locator("dialog").last.get_by_label("Name")).to_be_focused()  # a name has no slash
    await template(page, "Minutes <b>", "Sum up these minutes: <i>")
    item = shown.locator("li")
    await expect(item.locator("strong")).to_have_text("Minutes <b>")
    await expect(item).to_contain_text("By Local admin")
    await shown.get_by_role("button", name="Edit template: Minutes <b>").click()
    await template(page, "", "Sum up in three points:")
    await expect(item).to_contain_text("three points")
    assert await faults_of_access(page) == []
    await picture(page, "chat-templates-en")
    await page.keyboard.press("Escape")
    await field(page).fill("Before. ")
    await page.get_by_role("button", name="Prompt templates").click()
    await item.locator(".use").click()
    await expect(field(page)).to_be_focused()
    await expect(field(page)).to_have_value("Before. Sum up in three points:")
    await page.get_by_role("button", name="Prompt templates").click()
    await shown.get_by_role("button", name="Delete: Minutes <b>").click()
    await page.locator("dialog").last.get_by_role("button", name="Delete", exact=True).click()
    await expect(shown).to_contain_text("None yet.")


async def test_instructions_and_parameters_hold_for_the_conversation(
    open_chat: OpenChat, chat_door: RunningDoor
) -> None:
    page = await open_chat()
    await page.get_by_role("button", name="Instructions and parameters").click()
    door = page.locator("dialog")
    await door.get_by_label("Instructions for the model").fill("Answer in Japanese.")
    await door.get_by_label("Temperature").fill("3")
    await door.get_by_role("button", name="Save").click()
    await expect(door.get_by_label("Temperature")).to_be_focused()  # the browser says what is wrong with it
    await door.get_by_label("Temperature").fill("0.25")
    await door.get_by_label("Longest answer").fill("50")
    assert await faults_of_access(page) == []
    await picture(page, "chat-options-en")
    await door.get_by_role("button", name="Save").click()
    await asked(page, "one")
    first = sent(chat_door)
    assert first["messages"][0] == {"role": "system", "content": "Answer in Japanese."}
    assert (first["temperature"], first["max_tokens"], "top_p" in first) == (0.25, 50, False)
    await page.reload()
    await page.get_by_role("button", name="Instructions and parameters").click()
    await expect(door.get_by_label("Temperature")).to_have_value("0.25")
    await door.get_by_label("Temperature").fill("")
    await door.get_by_role("button", name="Save").click()
    await expect(door).to_have_count(0)
    await asked(page, "two")
    assert ("temperature" in sent(chat_door), sent(chat_door)["max_tokens"]) == (False, 50)
    await page.keyboard.press("Control+Shift+O")
    await asked(page, "three")
    assert [one["role"] for one in sent(chat_door)["messages"]] == ["user"]


async def test_an_answer_that_another_engine_went_on_with_says_so(
    sign_in_door: SignInDoor, open_chat: OpenChat
) -> None:
    def breaking(body: bytes) -> Script:
        return Script([event(chat_chunk({"content": "Half "})), Broken("gone")])

    engines = {"a": FakeBackend(breaking, name="a"), "b": FakeBackend(lambda _: chat_script(("whole",)), name="b")}
    for engine in engines.values():
        engine.continues = True
    backends = [{"name": name, "kind": "fake", "url": "http://x", "tier": tier} for tier, name in enumerate("ab")]
    page = await open_chat(await sign_in_door(engines=engines, backends=backends))
    shown = await asked(page, "x")
    await expect(shown.locator(".body")).to_have_text("Half whole")
    await expect(shown.locator(".status")).to_have_text(
        "The engine stopped in the middle of this answer; another one went on with it."
    )
    await picture(page, "chat-moved-en")


async def test_a_cut_answer_goes_on_in_a_conversation_that_the_browser_keeps(
    sign_in_door: SignInDoor, open_chat: OpenChat
) -> None:
    def cut_once(body: bytes) -> Script:
        if json.loads(body).get("continue_final_message"):
            return chat_script(["and the rest."])
        return Script([event(chat_chunk({"content": "The beginning "})), event(chat_chunk({}, finish="length"))])

    door = await sign_in_door(backend=FakeBackend(cut_once), chat_storage="browser")
    page = await open_chat(door)
    await asked(page, "x")
    await finished(page).get_by_role("button", name="Continue").click()
    for _ in ("at once", "after a reload"):
        await expect(finished(page).locator(".body")).to_have_text("The beginning and the rest.")
        await expect(finished(page).get_by_role("button", name="Continue")).to_have_count(0)
        await page.reload()
    assert sent(door)["messages"][-1] == {"role": "assistant", "content": "The beginning "}


async def test_one_token_is_no_tokens_and_an_administrators_notice_is_shown_as_it_is(
    sign_in_door: SignInDoor, open_chat: OpenChat
) -> None:
    notice = "Maintenance <b>tonight</b>, 22:00"
    door = await sign_in_door(backend=FakeBackend(answer), chat_retention_days=1, chat_notice=notice)
    page = await open_chat(door)
    await expect(page.locator(".column > .notice").first).to_have_text(notice)
    shown = await asked(page, "x")
    await expect(shown.locator(".foot .soft")).to_contain_text(" 1 token in ")
    await expect(page.locator(".sidebar footer")).to_contain_text("Kept for 1 day after the last message.")


async def test_whoever_has_no_room_left_is_told_what_to_do(sign_in_door: SignInDoor, open_chat: OpenChat) -> None:
    door = await sign_in_door(backend=FakeBackend(answer), chat_max_person_bytes=4096)
    page = await open_chat(door)
    await ask(page, "x" * 5000)
    told = page.locator(".message .notice.bad")
    await expect(told).to_contain_text("Your conversations take up all the room that there is for you.")
    assert await field(page).input_value() == ""
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
