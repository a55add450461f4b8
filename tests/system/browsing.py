"""People before the whole product, each with a browser of their own: what they do oftener than once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.gateway.chromium import NewContext
from tests.system.whole import Whole

PATIENCE = 120_000  # ms; an engine shares two processors with browsers and with other tests
expect.set_options(timeout=PATIENCE)

# Which this model does, and does not end; where a word were lost or said twice, its counting would tell.
LONG = "List the numbers from 1 to 100, like this: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"

Open = Callable[..., Awaitable[Page]]


@pytest.fixture
async def open_as(whole: Whole, new_context: NewContext) -> AsyncIterator[Open]:
    """Signs a person in at the provider, in a browser of their own, on the way to a page."""

    async def opened(login: str, path: str, **options: Any) -> Page:
        context = await new_context(**{"locale": "en-GB"} | options)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        await page.goto(whole.url + path)
        await at_the_provider(page, login)
        await page.wait_for_url(whole.url + path)
        return page

    yield opened
    await whole.quiet()


async def at_the_provider(page: Page, login: str) -> None:
    await page.fill("input[name=login]", login)
    await page.click("button[value=sign-in]")


async def set_options(page: Page, tokens: int) -> None:
    """The most likely words always, and no more than these."""
    await expect(page.locator(".models > summary")).to_contain_text("smollm2")
    await page.get_by_role("button", name="Instructions and parameters").click()
    await page.get_by_label("Temperature").fill("0")
    await page.get_by_label("Longest answer").fill(str(tokens))
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("dialog")).to_have_count(0)


def said(page: Page) -> Locator:
    """The text of the last answer."""
    return page.locator(".message.assistant .body").last


async def begun(page: Page, beyond: int = 0) -> str:
    """The last answer while it is written, once it is longer than that."""
    wait = """beyond => {
      const last = [...document.querySelectorAll(".message.assistant")].at(-1);
      const text = last?.querySelector(".body").textContent.trimEnd() ?? "";
      return last?.getAttribute("aria-busy") === "true" && text.length > beyond && text;
    }"""
    return str(await (await page.wait_for_function(wait, arg=beyond)).json_value())


def is_counting(text: str) -> bool:
    """Whether the answer is one after the other, without a gap. The last number may be half of one."""
    numbers = [int(number) for number in text.strip(" ,").split(", ")][:-1]
    return numbers == list(range(1, len(numbers) + 1))
