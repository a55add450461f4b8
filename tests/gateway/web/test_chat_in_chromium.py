"""The chat page as a person uses it, with an engine that says what it is asked to."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import expect

from backends.fake import FakeBackend
from tests.gateway.chromium import NewContext, enter, picture
from tests.gateway.conftest import RunningDoor, eventually
from tests.gateway.signing_in import SignInDoor
from tests.gateway.web.chatting import (
    OpenChat,
    answer,
    answers,
    ask,
    asked,
    chat_door,
    field,
    finished,
    open_chat,
    ready,
    words,
)

__all__ = ["chat_door", "open_chat"]
pytestmark = pytest.mark.slow

# The files without which nothing is painted.
BLOCKING = """() => performance.getEntriesByType("resource")
  .filter((it) => it.renderBlockingStatus === "blocking")
  .map((it) => it.name.split("/").at(-1))
  .sort()"""
BEFORE_THE_FIRST_ANSWER = 300 * 1024  # bytes of everything, as it comes over the wire


async def test_a_page_is_light_and_shows_an_answer_in_all_its_forms(
    open_chat: OpenChat, chat_door: RunningDoor, new_context: NewContext
) -> None:
    page = await (await new_context(locale="en-GB")).new_page()
    sizes: list[int] = []

    async def weigh(response: Any) -> None:
        sizes.append((await response.request.sizes())["responseBodySize"])

    await page.goto(f"{chat_door.url}/")
    page.on("response", weigh)
    await enter(chat_door, page, "/chat")
    await ready(page)
    await page.wait_for_load_state("networkidle")
    assert 10_000 < sum(sizes) < BEFORE_THE_FIRST_ANSWER
    shown = await asked(page, "markdown")
    await expect(shown.locator("h2", has_text="Result")).to_be_visible()
    await expect(shown.locator(".code .hljs-keyword", has_text="def")).to_be_visible()
    await expect(shown.locator("td", has_text="38")).to_have_css("text-align", "end")
    await expect(shown.locator(".katex-html")).to_have_count(2)
    assert "costs $5 or $6" in (await shown.text_content() or "")
    link = shown.locator("a", has_text="a link")
    assert await link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert await link.get_attribute("target") == "_blank"
    await expect(page.locator("[role=status]", has_text="The answer is complete.")).to_have_count(1)
    await picture(page, "chat-answer-en")


async def test_the_field_is_there_before_any_module_and_keeps_what_is_written_and_sent(
    chat_door: RunningDoor, new_context: NewContext
) -> None:
    page = await (await new_context(locale="en-GB")).new_page()
    await enter(chat_door, page)
    modules_may_come = asyncio.Event()

    async def hold(route: Any) -> None:
        await modules_may_come.wait()
        await route.continue_()

    await page.route(re.compile(r"/(chat|lib)/(?!first)\w+\.js$"), hold)
    await page.goto(f"{chat_door.url}/chat", wait_until="commit")
    await expect(field(page)).to_be_focused()
    await page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
    assert await page.evaluate(BLOCKING) == ["base.css", "chat.css", "composer.css", "first.js", "message.css"]
    await page.keyboard.type("in haste")
    await page.keyboard.press("Enter")
    modules_may_come.set()
    await expect(finished(page)).to_have_text([re.compile("You said: in haste")])
    await expect(page.locator(".message.user")).to_have_count(1)
    await expect(field(page)).to_have_value("")


async def test_what_a_model_says_is_inert(open_chat: OpenChat, chat_door: RunningDoor) -> None:
    page = await open_chat()
    elsewhere: list[str] = []
    page.on("request", lambda it: elsewhere.append(it.url) if not it.url.startswith(chat_door.url) else None)
    shown = await asked(page, "hostile")
    assert "The end of it." in (await shown.text_content() or "")
    assert await page.evaluate("() => window.hacked") is None
    assert elsewhere == []
    made = "it => [...it.querySelectorAll('.body *')].map(one => one.localName)"
    assert (
        set(await shown.evaluate(made)) & {"script", "img", "iframe", "form", "input", "style", "base", "object"}
        == set()
    )
    loose = (
        "it => [...it.querySelectorAll('.body a[href]')].filter(one => !/^https?:/.test(one.href)).map(one => one.href)"
    )
    assert await shown.evaluate(loose) == []
    kept = "it => it.querySelectorAll('.body [style]:not(.katex *), .body [onerror], .body [id]').length"
    assert await shown.evaluate(kept) == 0


async def test_an_enter_that_ends_a_composition_sends_nothing(open_chat: OpenChat) -> None:
    page = await open_chat(locale="ja-JP")
    keyboard = await page.context.new_cdp_session(page)
    await keyboard.send("Input.imeSetComposition", {"text": "かんじ", "selectionStart": 3, "selectionEnd": 3})
    # As Chromium tells an Enter that the input method takes: 229, while the word is being composed.
    enter_key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229}
    await keyboard.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **enter_key})
    await keyboard.send("Input.insertText", {"text": "漢字"})
    # As Safari tells it: the composition has ended, and the Enter that ended it comes behind it.
    await keyboard.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **enter_key})
    await expect(field(page)).to_have_value("漢字")
    await expect(answers(page)).to_have_count(0)
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("x")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.user .plain-text")).to_have_text("漢字\nx")


async def test_branches_are_kept_and_switched(open_chat: OpenChat) -> None:
    page = await open_chat()
    await asked(page, "one")
    await asked(page, "two")
    first = page.locator(".message.user").first
    await first.get_by_role("button", name="Edit and send again").click()
    await page.locator(".editor").fill("three")
    await page.keyboard.press("Enter")
    await expect(finished(page)).to_have_text([re.compile("You said: three")])
    await expect(first).to_contain_text("2/2")
    await finished(page).get_by_role("button", name="Answer again").click()
    await expect(finished(page)).to_contain_text("2/2")
    await first.get_by_role("button", name="Earlier version").click()
    await expect(finished(page)).to_have_text([re.compile("You said: one"), re.compile("You said: two")])
    await page.reload()
    await expect(finished(page)).to_have_text([re.compile("You said: one"), re.compile("You said: two")])
    await expect(first).to_contain_text("1/2")


async def test_an_answer_is_stopped_and_so_is_its_engine(open_chat: OpenChat, chat_door: RunningDoor) -> None:
    page = await open_chat()
    await ask(page, "endless")
    await expect(answers(page)).to_contain_text("word2")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    await expect(finished(page).get_by_role("button", name="Continue")).to_be_visible()
    await eventually(lambda: chat_door.backend.asked[0].aborted)


async def test_an_answer_is_whole_after_a_reload_and_in_another_tab(open_chat: OpenChat) -> None:
    page = await open_chat()
    await ask(page, "endless")
    await expect(answers(page)).to_contain_text("word2")
    other = await page.context.new_page()
    await other.goto(page.url)
    await expect(answers(other)).to_contain_text("word9")
    await page.reload()
    await expect(answers(page)).to_have_attribute("aria-busy", "true")
    await other.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    said = await page.locator(".message.assistant .body").text_content() or ""
    assert said.split() == [word.strip() for word in words(len(said.split()))]
    await expect(other.locator(".message.assistant .body")).to_have_text(said)
    await asked(other, "from the other tab")
    await expect(page.locator(".message.user").last).to_contain_text("from the other tab")


async def test_whoever_waits_sees_their_place_and_may_leave(sign_in_door: SignInDoor, open_chat: OpenChat) -> None:
    door = await sign_in_door(backend=FakeBackend(answer), max_concurrency=1)
    page = await open_chat(door)
    await ask(page, "endless")
    await expect(answers(page)).to_contain_text("word2")
    other = await page.context.new_page()
    await other.goto(f"{door.url}/chat")
    await ask(other, "quick")
    await expect(other.locator(".queue")).to_contain_text("You are number 1 in line.")
    await picture(other, "chat-queue-en")
    await other.get_by_role("button", name="Leave the line").click()
    await expect(finished(other)).to_contain_text("Stopped.")
    await other.get_by_role("button", name="Answer again").click()
    await expect(other.locator(".queue")).to_be_visible()
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(other)).to_contain_text("You said: quick")


async def test_conversations_are_found_renamed_and_deleted_and_back_goes_back(open_chat: OpenChat) -> None:
    page = await open_chat()
    await asked(page, "about apples")
    await page.keyboard.press("Control+Shift+O")
    await expect(answers(page)).to_have_count(0)
    await asked(page, "about pears")
    listed, titles = page.locator(".sidebar li"), page.locator(".sidebar li > a")
    await expect(titles).to_have_text(["about pears", "about apples"])
    await listed.last.locator("a").click()
    await expect(answers(page)).to_contain_text("apples")
    await field(page).fill("a draft of this one")
    await page.go_back()
    await expect(answers(page)).to_contain_text("pears")
    await expect(field(page)).to_have_value("")
    await page.go_forward()
    await expect(field(page)).to_have_value("a draft of this one")
    await page.go_back()
    await page.keyboard.press("Control+K")
    await page.keyboard.type("apples")
    await expect(titles).to_have_text(["about apples"])
    await listed.hover()
    await listed.locator("summary").click()
    await listed.get_by_role("button", name="Rename").click()
    await page.locator("dialog input").fill("Fruit <b>")
    await page.keyboard.press("Enter")
    await page.get_by_role("searchbox").fill("Fruit")
    await expect(titles).to_have_text(["Fruit <b>"])
    await listed.locator("summary").click()
    async with page.expect_download() as caught:
        await listed.get_by_role("button", name="Export as Markdown").click()
    download = await caught.value
    assert download.suggested_filename == "Fruit _b_.md"
    assert "You said: about apples" in (await download.path()).read_text()
    await listed.locator("summary").click()
    await listed.get_by_role("button", name="Delete").click()
    await page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_role("searchbox").fill("")
    await expect(titles).to_have_text(["about pears"])


async def test_a_browser_keeps_its_conversations_where_the_server_keeps_none(
    sign_in_door: SignInDoor, open_chat: OpenChat
) -> None:
    door = await sign_in_door(backend=FakeBackend(answer), chat_storage="browser")
    page = await open_chat(door)
    await asked(page, "first")
    await asked(page, "slowly")
    await page.reload()
    await expect(finished(page)).to_have_text([re.compile("You said: first"), re.compile("You said: slowly")])
    await expect(page.locator(".sidebar li > a")).to_have_text(["first"])
    await expect(page.locator(".sidebar footer")).to_contain_text("in this browser only")
    await page.locator(".message.user").first.get_by_role("button", name="Edit and send again").click()
    await page.locator(".editor").fill("endless")
    await page.keyboard.press("Enter")
    await expect(answers(page)).to_contain_text("word2")
    await page.reload()
    await expect(answers(page)).to_contain_text("word9")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
