"""People at the whole product: they sign in at a real provider, and a real engine answers them, one at a time."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.gateway.chromium import NewContext, new_context, picture
from tests.gateway.web.chatting import answers, ask, finished
from tests.system.browsing import LONG, Open, at_the_provider, begun, is_counting, open_as, said, set_options
from tests.system.whole import Whole, whole

__all__ = ["new_context", "open_as", "whole"]
pytestmark = pytest.mark.slow

MARKS = "<img src=x onerror=hacked=1> [click](javascript:hacked=2) <script>hacked=3</script>"
# What this model answers with most of it, word by word.
HOSTILE = "\n".join(["Correct the spelling of this HTML and show the whole HTML again:", "", *[MARKS] * 3])


async def test_a_person_signs_in_asks_watches_and_stops(whole: Whole, new_context: NewContext) -> None:
    page = await (await new_context(locale="en-GB")).new_page()
    await page.goto(whole.url)
    await picture(page, "whole-sign-in")
    await page.get_by_role("link", name="Sign in with Example ID").click()
    await at_the_provider(page, "jiro")
    await page.wait_for_url(f"{whole.url}/chat")
    await set_options(page, 6000)
    await ask(page, LONG)
    first = await begun(page)
    longer = await begun(page, len(first) + 20)
    assert longer.startswith(first)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    kept = await said(page).inner_text()
    assert kept.startswith(longer)
    await page.get_by_role("button", name="New chat").first.click()
    await expect(answers(page)).to_have_count(0)
    await page.go_back()
    await expect(said(page)).to_have_text(kept)
    await page.get_by_role("button", name="Continue").click()
    assert (await begun(page, len(kept) + 10)).startswith(kept)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    assert is_counting(await said(page).inner_text())


async def test_a_reload_in_its_middle_and_a_second_tab_lose_nothing_of_an_answer(whole: Whole, open_as: Open) -> None:
    page = await open_as("keiko", "/chat")
    await set_options(page, 6000)
    await ask(page, LONG)
    before = await begun(page)
    other = await page.context.new_page()
    await other.goto(page.url)
    assert (await begun(other, len(before))).startswith(before)
    await page.reload()
    after = await begun(page, len(before) + 20)
    assert after.startswith(before)
    await other.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    kept = await said(page).inner_text()
    assert kept.startswith(after)
    assert is_counting(kept)
    await expect(said(other)).to_have_text(kept)
    await set_options(other, 8)
    await ask(other, "Thank you.")
    await expect(finished(page)).to_have_count(2)


async def test_whoever_waits_counts_down_and_may_leave(open_as: Open) -> None:
    first, second, third = [await open_as(login, "/chat") for login in ("jiro", "keiko", "taro")]
    for page, tokens in ((first, 6000), (second, 6000), (third, 8)):
        await set_options(page, tokens)
    await ask(first, LONG)
    await begun(first)
    await ask(second, LONG)
    await expect(second.locator(".queue")).to_contain_text("You are number 1 in line.")
    await ask(third, "Hello")
    await expect(third.locator(".queue")).to_contain_text("You are number 2 in line.")
    await picture(third, "whole-queue")
    await first.get_by_role("button", name="Stop", exact=True).click()
    await expect(third.locator(".queue")).to_contain_text("You are number 1 in line.")
    await begun(second)
    await third.get_by_role("button", name="Leave the line").click()
    await expect(finished(third)).to_contain_text("Stopped.")
    await second.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(second)).to_have_count(1)
    await third.get_by_role("button", name="Answer again").click()
    await expect(finished(third)).to_contain_text("smollm2")


async def test_a_quota_is_reached_told_and_raised_and_the_person_goes_on(open_as: Open) -> None:
    admin, person = await open_as("hanako", "/console/policies?new"), await open_as("taro", "/chat")
    await admin.get_by_label("Name", exact=True).fill("sales")
    await admin.get_by_label("Applies to").fill("group:sales")
    await admin.get_by_label("Requests a day").fill("1")
    await saved(admin)
    await set_options(person, 8)
    await ask(person, "Hello")
    await expect(finished(person)).to_have_count(1)
    await ask(person, "Hello again")
    refused = finished(person).last.get_by_role("alert")
    await expect(refused).to_contain_text("Your quota is used up.")
    # What, how much and when.
    await expect(refused.locator("li").first).to_have_text(re.compile(r"Requests per day · 1 of 1 · frees .*\d"))
    await picture(person, "whole-quota")
    await admin.get_by_label("Requests a day").fill("50")
    await saved(admin)
    await person.get_by_role("button", name="Try again").click()
    await expect(person.get_by_role("alert")).to_have_count(0)
    await expect(finished(person)).to_have_count(2)
    await person.get_by_role("link", name="Usage").first.click()
    await expect(person.locator(".limit-list li")).to_contain_text("2 of 50")
    await person.go_back()
    await expect(finished(person)).to_have_count(2)


async def saved(admin: Page) -> None:
    await admin.get_by_role("button", name="Save").click()
    await admin.locator("dialog").get_by_role("button", name="Save").click()
    await expect(admin.locator(".result")).to_contain_text("The policy sales was saved.")


async def test_hostile_markdown_of_a_person_and_of_the_model_is_only_text(whole: Whole, open_as: Open) -> None:
    page = await open_as("mallory", "/chat")
    elsewhere: list[str] = []
    page.on("request", lambda it: elsewhere.append(it.url) if not it.url.startswith(whole.url) else None)
    await set_options(page, 100)
    await ask(page, HOSTILE)
    await expect(finished(page)).to_contain_text(MARKS.partition(" [")[0])
    await page.reload()
    await expect(finished(page)).to_contain_text("hacked=3")
    await picture(page, "whole-hostile")
    assert await page.locator(".message.user .plain-text").inner_text() == HOSTILE
    assert (await page.locator(".sidebar li > a").first.inner_text()).removesuffix("…") in HOSTILE
    assert await page.evaluate("() => window.hacked") is None
    assert await page.locator("main :is(img, script, a[href^=javascript])").count() == 0
    assert elsewhere == []


async def test_a_gateway_that_is_killed_in_mid_answer_loses_no_word_that_was_said(whole: Whole, open_as: Open) -> None:
    with whole.one_alone() as gateway:
        page = await open_as("jiro", "/chat")
        await set_options(page, 6000)
        await ask(page, LONG)
        before = await begun(page, 20)
    gateway.kill()
    await expect(finished(page).get_by_role("alert")).to_contain_text("The gateway that wrote this answer failed.")
    kept = await said(page).inner_text()
    assert kept.startswith(before)
    await picture(page, "whole-killed")
    await page.get_by_role("button", name="Continue").click()
    assert (await begun(page, len(kept) + 10)).startswith(kept)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(finished(page)).to_contain_text("Stopped.")
    assert is_counting(await said(page).inner_text())
