"""Every page of the whole product, for everybody: narrow and wide, in both languages and themes, by axe's rules."""

from __future__ import annotations

import pytest
import pytest_asyncio
from playwright.async_api import Page

from gateway.identity.records import user_id
from tests.gateway.chromium import CONSOLE_PAGES, NewContext, faults_of_access, new_context, picture
from tests.system.browsing import Open, open_as
from tests.system.whole import EVIL, Whole, whole

__all__ = ["new_context", "open_as", "whole"]
pytestmark = pytest.mark.slow

LOOKS = {
    "wide-light-en": {"locale": "en-GB", "color_scheme": "light", "viewport": {"width": 1920, "height": 1080}},
    "narrow-dark-ja": {"locale": "ja-JP", "color_scheme": "dark", "viewport": {"width": 320, "height": 640}},
}
# What a person opens, and by what it is seen that it is all there.
PAGES = {
    "": ".links",
    "account": ".visits li",
    "chat": ".composer button.primary",
    "chat?c={conversation}": ".message.assistant[aria-busy=false]",
    "usage": ".limit-list li",
    "plan": ".results table",
    **{f"console/{path}": ".page-body[aria-busy=false]" for path in CONSOLE_PAGES},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def known(whole: Whole) -> dict[str, str]:
    """Somebody who was here, and a conversation of the administrator; what others can name has hostile names."""
    user = user_id(whole.provider.issuer, "mallory")
    for method, path, body in (
        ("PUT", "groups/research", {"description": EVIL, "role": "user"}),
        ("POST", "service-accounts", {"id": "rag", "name": EVIL, "description": EVIL}),
        ("POST", "keys", {"owner": "service_account:rag", "name": EVIL}),
        ("PUT", "policies/everyone", {"requests_per_day": 500, "description": EVIL}),
    ):
        await whole.ask_as("", method, f"/admin/v1/{path}", body)
    question = {"model": EVIL, "messages": [{"role": "user", "content": EVIL}], "max_tokens": 2}
    await whole.ask_as("mallory", "POST", "/v1/chat/completions", question)
    made = await whole.ask_as("hanako", "POST", "/chat/v1/conversations", {"model": EVIL})
    asked = {"parent": None, "content": EVIL, "model": EVIL, "parameters": {"max_tokens": 2}}
    await whole.ask_as("hanako", "POST", f"/chat/v1/conversations/{made['id']}/answers", asked)
    return {"user": user, "conversation": made["id"]}


@pytest.mark.parametrize("look", LOOKS)
async def test_a_page_before_sign_in_is_for_everybody(whole: Whole, new_context: NewContext, look: str) -> None:
    page = await (await new_context(**LOOKS[look])).new_page()
    for path in ("", "auth/callback?state=x&code=y"):
        await page.goto(f"{whole.url}/{path}")
        await looked_at(page, f"signed-out-{path.partition('?')[0].replace('/', '-')}-{look}")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_page_is_for_everybody_and_what_others_wrote_stays_inert(
    open_as: Open, whole: Whole, known: dict[str, str], look: str
) -> None:
    page = await open_as("hanako", "/account", **LOOKS[look])
    shown = []
    for path, arrived in PAGES.items():
        await page.goto(f"{whole.url}/{path.format(**known)}")
        await page.wait_for_selector(arrived)
        await looked_at(page, f"{path.partition('{')[0].strip('/?=').replace('/', '-') or 'home'}-{look}")
        assert await page.locator("main :is(img, .notice.bad)").count() == 0, path
        shown.append(await page.inner_text("main"))
    assert sum(EVIL in text for text in shown) >= 8, "pages that show what others wrote"


async def looked_at(page: Page, name: str) -> None:
    await picture(page, f"whole-{name}")
    width = (page.viewport_size or {})["width"]
    assert await page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert await page.locator("html").get_attribute("lang") == ("ja" if name.endswith("ja") else "en")
    assert await faults_of_access(page) == [], name
