"""What all pages of scripts stand on (static/lib), in a browser, on a page that is there for this alone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from gateway.web.app_page import app_page
from gateway.web.assets import assets
from tests.gateway.chromium import NewContext, enter
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor

pytestmark = pytest.mark.slow

SCRIPT = """
import * as api from "./lib/api.js";
import * as dom from "./lib/dom.js";
import * as format from "./lib/format.js";
import { showHeader } from "./lib/header.js";
showHeader();
Object.assign(window, { api, dom, format });
"""


@pytest.fixture
async def door(sign_in_door: SignInDoor) -> RunningDoor:
    return await sign_in_door()


async def opened(door: RunningDoor, new_context: NewContext, **options: Any) -> Page:
    """A page under the strictest policy, whose script has loaded everything."""
    page = await (await new_context(**options)).new_page()
    version = assets().version

    async def frame(route: Any) -> None:
        language = "ja" if "sekisho-language=ja" in (await route.request.all_headers()).get("cookie", "") else "en"
        text = app_page(language, "Test", "lib/header.js").replace("lib/header.js", "test.js")
        policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        headers = {"content-security-policy": policy + "require-trusted-types-for 'script'"}
        await route.fulfill(content_type="text/html; charset=utf-8", body=text, headers=headers)

    await page.route("**/test-page*", frame)
    await page.route(
        f"**/web/{version}/test.js", lambda route: route.fulfill(content_type="text/javascript", body=SCRIPT)
    )
    await enter(door, page, "/test-page")
    await page.wait_for_function("() => window.api && document.querySelector('#header nav a')")
    return page


async def test_what_is_shown_is_text_whatever_it_holds(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    evil = "<img src=x onerror=alert(1)>"
    shown = """evil => {
      const made = dom.h("p", {class: "a", title: evil, dataset: {x: evil}, hidden: false}, evil, [null, ["b", false]]);
      document.querySelector("main").append(made);
      return [made.innerText, made.children.length, made.title, made.outerHTML.includes("hidden")];
    }"""
    assert await page.evaluate(shown, evil) == [evil + "b", 0, evil, False]
    for name in ("innerHTML", "outerHTML", "srcdoc"):
        refused = "name => { try { dom.h('iframe', {[name]: '<b>'}); return false } catch { return true } }"
        assert await page.evaluate(refused, name), name


async def test_false_leaves_an_attribute_out_and_is_what_it_says_of_the_element(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context)
    made = "dom.h('input', {spellcheck: false, disabled: false, 'aria-busy': false, title: false})"
    told = f"(made => [made.spellcheck, made.disabled, made.getAttributeNames()])({made})"
    assert await page.evaluate(told) == [False, False, ["spellcheck"]]


async def test_an_error_of_the_door_comes_as_it_told_it(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    told = "error => [error.name, error.status, error.code, error.message.length > 9, error.requestId]"
    asked = f"path => api.askJson(path).catch({told})"
    name, status, code, in_words, request_id = await page.evaluate(asked, "/v1/models/none")
    assert (name, status, code, in_words) == ("ApiError", 404, "model_not_found", True)
    assert len(request_id) == 32
    await page.route("**/away", lambda route: route.abort())
    assert (await page.evaluate(asked, "/away"))[:3] == ["ApiError", 0, "unreachable"]
    ended = """() => { const stop = new AbortController(); stop.abort();
      return api.ask("/v1/models", {signal: stop.signal}).catch(error => error.name) }"""
    assert await page.evaluate(ended) == "AbortError"


async def test_whoever_is_signed_out_meanwhile_is_led_to_sign_in_and_back(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context)
    await page.context.clear_cookies()
    async with page.expect_navigation(url="**/auth/sign-in?return_to=%2Ftest-page"):
        await page.evaluate("() => { api.askJson('/v1/models').catch(() => {}) }")


async def test_the_language_is_chosen_in_the_header_and_kept(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, locale="en-GB")
    assert "Local admin" in await page.inner_text("#header")
    await page.click(".menu > summary")
    await page.get_by_label("Language").select_option("ja")
    await page.wait_for_selector("html[lang=ja] nav a")
    assert await page.inner_text("nav a >> nth=0") == "ホーム"
    assert await page.evaluate("[format.duration(312), format.duration(0.0123), format.bytes(3 * 2 ** 30)]") == [
        "5 分 12 秒",
        "12.3 ms",
        "3.00 GiB",
    ]


async def test_a_chosen_theme_holds_from_the_first_frame_on_every_page(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(ground)
    await page.click(".menu > summary")
    await page.get_by_label("Appearance").select_option("dark")
    dark = await page.evaluate(ground)
    assert dark != light
    await page.route("**/test.js", lambda route: route.abort())  # without any module
    await page.reload()
    assert await page.evaluate(ground) == dark


async def test_the_menu_closes_by_escape_and_leads_out(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    await page.focus(".menu > summary")
    await page.keyboard.press("Enter")
    assert await page.is_visible("text=Sign out")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Escape")
    assert not await page.is_visible("text=Sign out")
    assert await page.evaluate("document.activeElement.tagName") == "SUMMARY"
    await page.keyboard.press("Enter")
    async with page.expect_navigation(url=f"{door.url}/"):
        await page.click("text=Sign out")
    assert "./sekisho sign-in" in await page.inner_text("main")
