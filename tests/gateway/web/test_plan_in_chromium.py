"""The planner's page as a person uses it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Error, Page

from tests.gateway.chromium import NewContext, enter, faults_of_access, picture
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor
from tests.gateway.web.measuring import set_speed

pytestmark = pytest.mark.slow

EVERYTHING = (
    "/plan?model=qwen3-30b-a3b&hardware=h100&gpus=2&weights=int4&kv_cache_dtype=fp8&people=800&shared_prefix=2000"
    "&measured=16:3200"
)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 320, "height": 640}


@pytest.fixture
async def door(sign_in_door: SignInDoor) -> RunningDoor:
    return await sign_in_door()


async def opened(door: RunningDoor, new_context: NewContext, path: str = "/plan", **options: Any) -> Page:
    page = await (await new_context(**{"locale": "en-GB"} | options)).new_page()
    await enter(door, page, path)
    await computed(page)
    return page


async def computed(page: Page) -> None:
    """What stands there is the answer to what is asked."""
    await page.wait_for_selector(".results[aria-busy=false] > *")


async def change(page: Page, label: str, value: str) -> None:
    async with page.expect_response("**/plan/v1/plan?**"):
        field = page.get_by_label(label, exact=True)
        await (
            field.select_option(value) if await field.evaluate("it => it.tagName") == "SELECT" else field.fill(value)
        )
    await computed(page)


async def test_a_plan_shows_all_that_it_is_made_for(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, EVERYTHING, viewport=WIDE)
    text = await page.inner_text(".results")
    for said in (
        "people at once on one machine",
        "of this machine for 800 people",
        "wait of the last on one machine",
        "--max-num-seqs",
        "--max-model-len 4096",
        "Counted with 61% of the computed speed",
        "KV cache of a token\n48.0 KiB",
        "2 (K and V) x layers x KV heads x head dim x bytes of an element",
        "Upper bounds.",
        "✓ met",
        "Measured / computed",
        "8 for one alone, 82 for 16",
        "2 GPUs read a part",
        "One after the other",
        "TTFT alone on the machine",
        "where the first 2,000 are cached",
        "vllm serve INT4-CHECKPOINT",
        "Choose a checkpoint of this model in INT4",
    ):
        assert said in text, said
    parts = "all => all.map(it => ['x', 'width'].map(one => Math.round(it.getAttribute(one))))"
    shown = await page.eval_on_selector_all("tbody tr:last-child rect", parts)
    assert shown == [[0, 386], [386, 614]], "16.2 GB of weights, 25.8 of KV cache"
    assert "undefined" not in text
    assert "NaN" not in text
    await picture(page, "plan-wide-en")
    assert await faults_of_access(page) == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("wide-dark-ja", {"locale": "ja-JP", "viewport": WIDE, "color_scheme": "dark"}),
        ("narrow-en", {"viewport": NARROW}),
    ],
)
async def test_it_is_for_everybody_on_every_screen(
    door: RunningDoor, new_context: NewContext, name: str, options: dict[str, Any]
) -> None:
    page = await opened(door, new_context, EVERYTHING, **options)
    if options.get("locale") == "ja-JP":
        assert "1台で何人が使えるか" in await page.inner_text("h1")
    await picture(page, f"plan-{name}")
    assert await page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
    assert await faults_of_access(page) == []


async def test_what_is_asked_is_kept_in_the_address_and_found_again(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    first = await page.inner_text(".results")
    await change(page, "Model", "qwen3-32b")
    await change(page, "People at the peak", "400")
    await change(page, "Weights", "int8")
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["model"], asked["people"], asked["weights"]) == (["qwen3-32b"], ["400"], ["int8"])
    text = await page.inner_text(".results")
    assert text != first
    assert "no room" in await page.inner_text("tbody tr:last-child")
    again = await page.context.new_page()
    await again.goto(page.url)
    await computed(again)
    assert await again.inner_text(".results") == text


async def test_own_figures_stand_in_the_place_of_a_model_and_a_machine(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context)
    assert not await page.is_visible("#bandwidth")
    await change(page, "Model", "")
    assert "a plan needs a model" in (await page.inner_text(".results")).lower()
    for label, value in (("Layers", "48"), ("KV heads", "4"), ("Head dimension", "128")):
        await change(page, label, value)
    await change(page, "Machine or GPU", "")
    await change(page, "Weights read a step (GB)", "3")
    await change(page, "Bandwidth (GB/s)", "273")
    asked = parse_qs(urlsplit(page.url).query)
    assert not asked.keys() & {"model", "hardware"}
    assert (asked["active_weight_bytes"], asked["bandwidth"]) == (["3000000000"], ["273000000000"])
    row = await page.inner_text("tbody tr:nth-child(5)")
    assert re.split(r"\s+", row)[:3] == ["16", "463", "28.9"], row
    await page.reload()
    await computed(page)
    assert await page.inner_text("tbody tr:nth-child(5)") == row
    await change(page, "Model", "qwen3-8b")
    assert not parse_qs(urlsplit(page.url).query).keys() & {"layers", "active_weight_bytes"}


async def test_what_was_measured_here_is_compared_with_the_plan(door: RunningDoor, new_context: NewContext) -> None:
    set_speed(door, n=40, x=640, y=0.8)
    page = await opened(door, new_context, "/plan?model=qwen3-8b&hardware=l4")
    assert "fake: 16.0 at once, 800 tok/s, 50.0 for each" in await page.inner_text("main")
    async with page.expect_response("**measured=16**"):
        await page.get_by_role("button", name="Compare").click()
    await page.wait_for_selector("th:text('Measured / computed')")
    assert await page.input_value("#measured") == "16:800"
    assert "413%" in await page.inner_text("tbody tr:nth-child(5)")
    assert "it was another model, machine or format" in await page.inner_text(".notice.bad")
    await picture(page, "plan-measured")


async def test_what_cannot_be_planned_is_said_beside_its_field(door: RunningDoor, new_context: NewContext) -> None:
    evil = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    page = await opened(door, new_context, f"/plan?hardware=h100&measured={evil}&other={evil}")
    assert "<img" in await page.inner_text("#measured-fault")
    assert await page.locator("main img").count() == 0
    await change(page, "Measured batch:tok/s", "")
    await change(page, "Machine or GPU", "dgx-spark")
    await change(page, "GPUs (tensor parallel)", "2")
    field = page.get_by_label("GPUs (tensor parallel)", exact=True)
    assert await field.get_attribute("aria-invalid") == "true"
    assert "expected 1 with dgx-spark" in await page.inner_text("#gpus-fault")
    await change(page, "Context (tokens)", "0")
    assert "context: " in await page.inner_text("#context-fault")
    await change(page, "Context (tokens)", "4096")
    await change(page, "GPUs (tensor parallel)", "1")
    assert await field.get_attribute("aria-invalid") == "false"
    assert await page.inner_text("#gpus-fault") == ""


async def test_a_command_is_copied_and_the_link_too(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    holds = "async start => (await navigator.clipboard.readText()).startsWith(start)"
    await page.get_by_role("button", name="Copy command for vLLM").click()
    await page.wait_for_function(holds, arg="vllm serve Qwen/Qwen3-8B --max-num-seqs ")
    await page.get_by_role("button", name="Copy link").click()
    await page.wait_for_function(holds, arg=page.url)
    # Over plain HTTP scripts have no clipboard: what would be copied is selected.
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    await page.get_by_role("button", name="Copy command for vLLM").click()
    await page.wait_for_function("() => getSelection().toString().startsWith('vllm serve ')")


async def test_with_a_keyboard_alone_one_comes_from_the_header_to_the_answer(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context)
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.className") == "skip"
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "model"
    async with page.expect_response("**/plan/v1/plan?model=qwen3-14b**"):
        await page.keyboard.press("ArrowDown")
    await computed(page)
    assert "model=qwen3-14b" in page.url


async def test_only_the_last_of_quick_changes_is_shown(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context)
    late, told = asyncio.Event(), asyncio.Event()

    async def hold(route: Any) -> None:
        await late.wait()
        answer = await route.fetch()
        with contextlib.suppress(Error):  # the page may have given it up
            await route.fulfill(response=answer)
        told.set()

    await page.route("**/plan/v1/plan?*people=111*", hold)
    await page.get_by_label("People at the peak").fill("111")
    await page.wait_for_url("**people=111*")
    await change(page, "People at the peak", "222")
    late.set()
    await told.wait()
    await page.evaluate("fetch('/healthz').then(answer => answer.text())")  # what was told before it has arrived too
    assert "When the last of 222 has" in await page.inner_text(".results")


async def test_whoever_is_not_signed_in_comes_back_to_the_same_plan(door: RunningDoor, new_context: NewContext) -> None:
    page = await (await new_context()).new_page()
    await page.goto(f"{door.url}/plan?model=qwen3-8b")
    assert page.url == f"{door.url}/auth/sign-in?return_to=/plan%3Fmodel%3Dqwen3-8b"
