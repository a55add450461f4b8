"""A real Chromium for the tests of pages. What a page complains of fails the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.identity import local_link
from gateway.identity.api_keys import local_admin
from tests.external.packages import npm_packages

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from tests.gateway.conftest import RunningDoor

AXE = Path(__file__).parents[1] / "external" / "axe"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Beneath /console/.
CONSOLE_PAGES = (
    "overview",
    "queue",
    "backends",
    "users",
    "users/{user}",
    "sessions",
    "groups",
    "service-accounts",
    "service-accounts/rag",
    "keys",
    "policies",
    "policies/everyone",
    "policies/effective?user={user}",
    "usage",
    "audit",
    "settings",
)
NewContext = Callable[..., Awaitable["BrowserContext"]]


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return found
    if os.environ.get("CI"):
        pytest.fail("no Chromium is installed; CI needs one")
    pytest.skip("no Chromium is installed")


@pytest.fixture
async def new_context() -> AsyncIterator[NewContext]:
    """Makes browsers that share nothing with each other."""
    from playwright.async_api import async_playwright

    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])

        async def make(**options: Any) -> BrowserContext:
            context = await browser.new_context(**options)
            context.on("weberror", lambda error: complaints.append(str(error.error)))
            context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            context.set_default_timeout(60_000)
            return context

        yield make
        await browser.close()
    refused = [text for text in complaints if "Content Security Policy" in text or "Error" in text]
    assert refused == []


async def picture(page: Page, name: str) -> None:
    """For a person to look at, where one asks for it."""
    if folder := os.environ.get("SCREENSHOTS"):
        await page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def enter(door: RunningDoor, page: Page, path: str = "/") -> None:
    """Sign in as the local admin, by a one-time link, and open this page."""
    assert door.app.door is not None
    link = await local_link.make(door.app.door.store, (await local_admin(door.app.door.directory)).id)
    await page.request.get(door.url + link, max_redirects=0)
    await page.goto(door.url + path)


async def faults_of_access(page: Page, rules: Sequence[str] = RULES) -> list[str]:
    """What axe finds against WCAG 2.2, A and AA, and what it holds for good practice; or by these rules alone."""
    npm_packages(AXE, "axe")
    if not await page.evaluate("'axe' in window"):
        await page.evaluate((AXE / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8"))
    found = await page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
    return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]
