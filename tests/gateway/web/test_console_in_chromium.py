"""The console as admins and auditors use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from playwright.async_api import Page, expect

from backends.fake import FakeBackend, Script, chat_script
from gateway.identity import local_link
from gateway.identity.browser import SESSION
from gateway.identity.records import User, user_id
from gateway.identity.sessions import Arrival
from tests.gateway.chromium import CONSOLE_PAGES, RULES, NewContext, enter, faults_of_access, picture
from tests.gateway.conftest import RunningDoor, ask, eventually
from tests.gateway.signing_in import SignInDoor

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=alert(1)>"
# As a link within the console leads there.
GO = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')) }"
ISSUER = "http://127.0.0.1:9/realm"


@pytest.fixture
async def door(sign_in_door: SignInDoor) -> RunningDoor:
    """A door whose engine leaves whoever says "wait" without a word; one at a time."""
    engine = FakeBackend(lambda body: Script((600.0,)) if b"wait" in body else chat_script(("Hello",)))
    door = await sign_in_door(backend=engine, max_concurrency=1, redis_timeout=10)
    await known(door, "evil", EVIL)
    await api(door, "PUT", "/groups/research", {"description": EVIL, "role": "user"})
    await api(door, "POST", "/service-accounts", {"id": "rag", "name": EVIL, "description": EVIL})
    await api(door, "POST", "/keys", {"owner": "service_account:rag", "name": EVIL})
    await api(door, "PUT", "/policies/everyone", {"requests_per_day": 500, "description": EVIL})
    return door


async def api(door: RunningDoor, method: str, path: str, body: Any = None) -> Any:
    async with door.client.request(method, f"/admin/v1{path}", json=body) as answer:
        assert answer.status < 300, await answer.text()
        return await answer.json()


async def becomes(asked: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if holds(await asked()):
                return
            await asyncio.sleep(0.02)


async def known(door: RunningDoor, subject: str, name: str, **fields: Any) -> str:
    """The id of a person who was here."""
    assert door.app.door is not None
    user = User(id=user_id(ISSUER, subject), issuer=ISSUER, subject=subject, name=name, why=(name,), **fields)
    await door.app.door.directory.create(None, user)
    return user.id


async def opened(door: RunningDoor, new_context: NewContext, path: str, **options: Any) -> Page:
    page = await (await new_context(**{"locale": "en-GB"} | options)).new_page()
    await enter(door, page, f"/console/{path}")
    await arrived(page)
    return page


async def arrived(page: Page) -> None:
    await page.wait_for_selector(".page-body[aria-busy=false]", timeout=30_000)


async def confirm(page: Page, button: str) -> None:
    await page.locator("dialog").get_by_role("button", name=button, exact=True).click()


async def told(page: Page, text: str) -> None:
    await expect(page.locator(".result")).to_contain_text(text, timeout=30_000)


@pytest.fixture
async def waiting(door: RunningDoor) -> AsyncIterator[list[asyncio.Task[int]]]:
    """One that runs and one that waits, as the statuses that they end with."""

    async def status() -> int:
        async with door.post(ask("wait")) as answer:
            return int(answer.status)

    tasks = [asyncio.create_task(status()) for _ in range(2)]
    await becomes(
        lambda: api(door, "GET", "/queue"),
        lambda queue: [(len(line["running"]), len(line["waiting"])) for line in queue["lines"]] == [(1, 1)],
    )
    yield tasks
    for task in tasks:
        task.cancel()


async def test_a_key_is_made_seen_once_and_taken_back(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, "service-accounts/rag")
    await page.get_by_role("button", name="New key").click()
    await page.locator("dialog").get_by_label("Name", exact=True).fill("nightly")
    await page.locator("dialog").get_by_label("Models").fill("small\nlarge*")
    await picture(page, "console-new-key")
    await confirm(page, "New key")
    key = await page.locator("dialog .once code").inner_text()
    assert key.startswith("sk-skh-")
    await picture(page, "console-key-once")
    await confirm(page, "I have it")
    await told(page, "The key nightly of service_account:rag was made.")
    row = page.locator("tr", has_text="nightly")
    await expect(row).to_contain_text("small, large*")
    assert key not in await page.content()
    async with door.client.get("/v1/models", headers={"authorization": f"Bearer {key}"}) as answer:
        assert answer.status == 200
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    await expect(row).to_have_count(0)
    assert [one["name"] for one in (await api(door, "GET", "/keys?owner=service_account:rag"))["data"]] == [EVIL]


async def test_whoever_is_neither_admin_nor_auditor_is_told_so(door: RunningDoor, new_context: NewContext) -> None:
    assert door.app.door is not None
    user = await known(door, "user", "Only Uses")
    page = await (await new_context(locale="en-GB")).new_page()
    await page.goto(door.url + await local_link.make(door.app.door.store, user))
    await page.goto(f"{door.url}/console/users")
    await expect(page.locator("main")).to_contain_text("for auditors and admins")
    assert "Console" not in await page.inner_text("#header nav")


async def test_a_request_is_moved_to_another_class_back_and_ended(
    door: RunningDoor, new_context: NewContext, waiting: list[asyncio.Task[int]]
) -> None:
    page = await opened(door, new_context, "queue")

    async def classes() -> list[str]:
        return [one["class"] for line in (await api(door, "GET", "/queue"))["lines"] for one in line["waiting"]]

    await page.get_by_role("button", name="Class").click()
    await page.get_by_label("Class", exact=True).select_option("batch")
    await confirm(page, "Change the class")
    await told(page, "waits in the class batch")
    assert await classes() == ["batch"]
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert await classes() == ["api"]
    await page.get_by_role("region", name="Who waits").get_by_role("button", name="End").click()
    await expect(page.locator("dialog")).to_contain_text("This cannot be undone.")
    await confirm(page, "Leave it as it is")
    assert len(await classes()) == 1
    await page.get_by_role("region", name="Who waits").get_by_role("button", name="End").click()
    await confirm(page, "End")
    await told(page, "was ended")
    await eventually(lambda: any(task.done() for task in waiting), 30)
    assert [task.result() for task in waiting if task.done()] == [403]
    await expect(page.get_by_role("region", name="Who waits")).to_have_count(0)


async def test_an_engine_is_added_drained_tested_and_removed(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, "backends")

    async def order(name: str = "fake") -> Any:
        return {one["name"]: one["order"] for one in (await api(door, "GET", "/backends"))["data"]}.get(name)

    card = page.locator(".backend", has_text="fake")
    await card.get_by_role("button", name="Test now").click()
    await confirm(page, "Test now")
    await told(page, "fake answered with fake in")
    await card.get_by_role("button", name="Drain").click()
    await confirm(page, "Drain")
    await told(page, "fake is drained now.")
    assert (await order())["use"] == "drained"
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert (await order())["use"] == "enabled"
    await page.get_by_role("button", name="Add an engine").click()
    await page.locator("dialog").get_by_label("Name", exact=True).fill("second")
    await page.get_by_label("Address").fill("ftp://nowhere")
    await confirm(page, "Add an engine")
    await expect(page.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Address").fill("http://127.0.0.1:9")
    await page.get_by_label("Key of the engine").fill("secret-of-it")
    await confirm(page, "Add an engine")
    await told(page, "second was added.")
    assert (await order("second"))["added"]
    assert "secret-of-it" not in await page.content()
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert await order("second") is None


async def test_what_needs_attention_stands_above_all_else(door: RunningDoor, new_context: NewContext) -> None:
    assert door.app.door is not None
    page = await opened(door, new_context, "overview")
    alerts = page.locator(".alerts")
    await expect(alerts).to_contain_text("Nothing needs attention.")
    door.app.door.providers.away = lambda: {EVIL: 1.0}  # type: ignore[method-assign]
    await page.reload()
    await expect(alerts.locator("li")).to_have_count(1, timeout=30_000)
    await expect(alerts).to_contain_text(f"The identity provider {EVIL} does not answer")
    await picture(page, "console-alerts")


async def test_a_name_for_a_model_is_made_pointed_elsewhere_and_ended(
    door: RunningDoor, new_context: NewContext
) -> None:
    async def names() -> Any:
        return (await api(door, "GET", "/backends"))["aliases"]

    page = await opened(door, new_context, "backends")
    await page.get_by_role("button", name="New name for a model").click()
    await page.locator("dialog").get_by_label("Name", exact=True).fill("our best")
    await page.get_by_label("Stands for the model").fill("fake")
    await confirm(page, "Save")
    await told(page, "our best stands for fake now.")
    assert await names() == {"our best": "fake"}
    row = page.locator("tr", has_text="our best")
    await row.get_by_role("button", name="End").click()
    await confirm(page, "End")
    await told(page, "our best stands for nothing any more.")
    assert await names() == {}
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert await names() == {"our best": "fake"}
    await row.get_by_role("button", name="Change").click()
    await page.get_by_label("Stands for the model").fill("other")
    await confirm(page, "Save")
    await told(page, "our best stands for other now.")
    await picture(page, "console-aliases")


async def test_a_policy_is_edited_after_its_changes_were_shown_and_undone(
    door: RunningDoor, new_context: NewContext
) -> None:
    page = await opened(door, new_context, "policies/everyone")
    await page.get_by_label("Requests a day").fill("700")
    await page.get_by_label("An output token counts as").fill("4")
    await page.get_by_role("button", name="Save").click()
    shown = page.locator("dialog .changes li")
    assert await shown.all_inner_texts() == [
        "requests_per_day 500 → 700",
        'weights {"cached_input":1,"output":1} → {"cached_input":1,"output":4}',
    ]
    await confirm(page, "Save")
    await told(page, "The policy everyone was saved.")
    policy = await api(door, "GET", "/policies/everyone")
    assert (policy["requests_per_day"], policy["weights"]["output"], policy["description"]) == (700, 4, EVIL)
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    await expect(page.get_by_label("Requests a day")).to_have_value("500")
    assert (await api(door, "GET", "/policies/everyone"))["requests_per_day"] == 500
    await page.get_by_label("Applies to").fill("nobody at all")
    await page.get_by_role("button", name="Save").click()
    await confirm(page, "Save")
    await expect(page.locator("dialog .notice.bad")).to_contain_text("nobody at all")
    assert (await api(door, "GET", "/policies/everyone"))["applies_to"] == ["everyone"]


async def test_a_policy_is_tried_on_what_was_used(door: RunningDoor, new_context: NewContext) -> None:
    async with door.post(ask()) as answer:
        assert answer.status == 200
    await becomes(lambda: api(door, "GET", "/usage"), lambda usage: usage["total"]["requests"] == 1)
    page = await opened(door, new_context, "policies?new")
    await page.get_by_label("Only these models").fill("large")
    await page.get_by_label("Requests a minute").fill("1")
    await page.get_by_role("button", name="Ask the ledger").click()
    shown = page.locator("section", has_text="Who would have been refused?")
    await expect(shown.locator("tbody tr")).to_have_count(1, timeout=30_000)
    await expect(shown.locator("tbody tr")).to_contain_text("1 of 1")
    await expect(shown).to_contain_text("Requests a minute: Use is kept by the day")
    async with page.expect_download() as saving:
        await shown.get_by_role("button", name="All as CSV").click()
    saved = (await (await saving.value).path()).read_text("utf-8-sig").splitlines()
    assert saved[0].startswith("day,whom,name,limit")
    assert saved[1].endswith(",1,1")
    await page.get_by_label("Requests a minute").fill("-1")
    await page.get_by_label("Only these models").fill("")
    await page.get_by_role("button", name="Ask the ledger").click()
    await expect(shown.locator(".notice.bad")).to_contain_text("requests_per_minute")
    assert [one["id"] for one in (await api(door, "GET", "/policies"))["data"]] == ["everyone"]


async def test_what_is_new_takes_nothings_place(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, "groups")
    await page.get_by_role("button", name="New group").click()
    await page.locator("dialog").get_by_role("textbox").first.fill("research")
    await confirm(page, "Save")
    await expect(page.locator("dialog .notice.bad")).to_contain_text("There is one called research already.")
    await confirm(page, "Leave it as it is")
    await page.evaluate(GO, "/console/policies?new")
    await arrived(page)
    await page.get_by_label("Name", exact=True).fill("everyone")
    await page.get_by_label("Applies to").fill("everyone")
    await page.get_by_role("button", name="Save").click()
    await confirm(page, "Save")
    await expect(page.locator("dialog .notice.bad")).to_contain_text("There is one called everyone already.")
    assert (await api(door, "GET", "/policies/everyone"))["requests_per_day"] == 500
    assert (await api(door, "GET", "/groups/research"))["description"] == EVIL


async def test_what_applies_to_a_person_is_told_with_its_reason(door: RunningDoor, new_context: NewContext) -> None:
    page = await opened(door, new_context, f"users/{user_id(ISSUER, 'evil')}")
    await page.get_by_role("link", name="Limits that apply").click()
    row = page.locator("tr", has_text="Requests a day")
    await expect(row).to_contain_text("500")
    await expect(row.get_by_role("link", name="everyone")).to_have_count(1)
    await page.go_back()
    await expect(page.locator("h2").first).to_have_text(EVIL)


async def test_a_person_gets_a_role_is_disabled_and_both_are_undone(door: RunningDoor, new_context: NewContext) -> None:
    person = user_id(ISSUER, "evil")
    page = await opened(door, new_context, f"users/{person}")

    async def now() -> tuple[Any, ...]:
        user = await api(door, "GET", f"/users/{person}")
        return user["set_role"], user["set_groups"], user["disabled"]

    await page.get_by_role("button", name="Role, tenant, groups").click()
    await page.get_by_label("Role", exact=True).select_option("auditor")
    await confirm(page, "Save")
    await told(page, f"{EVIL} is auditor in the tenant default now.")
    assert await now() == ("auditor", None, False)
    await page.get_by_role("button", name="Role, tenant, groups").click()
    await page.get_by_label("Groups are set here").check()
    await page.get_by_label("Groups", exact=True).fill("research\n\nsales")
    await confirm(page, "Save")
    await expect(page.locator(".facts")).to_contain_text("research, sales", timeout=30_000)
    assert await now() == ("auditor", ["research", "sales"], False)
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert await now() == ("auditor", None, False)
    await page.get_by_role("button", name="Disable").click()
    await confirm(page, "Disable")
    await told(page, "is disabled")
    assert await now() == ("auditor", None, True)
    await page.get_by_role("button", name="Undo").click()
    await told(page, "Undone")
    assert await now() == ("auditor", None, False)


async def test_somebody_is_made_before_they_come_and_found_by_state(
    sign_in_door: SignInDoor, new_context: NewContext
) -> None:
    door = await sign_in_door(issuers=[{"issuer": ISSUER, "client_id": "gateway"}])
    admin = await known(door, "boss", "Boss", set_role="admin")
    assert door.app.door is not None
    token, _ = await door.app.door.sessions.begin(Arrival(admin, ISSUER, "127.0.0.1", "Chromium"))
    context = await new_context(locale="en-GB")
    await context.add_cookies([{"name": SESSION, "value": token, "url": door.url}])
    page = await context.new_page()
    await page.goto(f"{door.url}/console/users")
    await arrived(page)
    await page.get_by_role("button", name="New user").click()
    await page.get_by_label("Subject there").fill("coming")
    await page.locator("dialog").get_by_label("Name", exact=True).fill(f"{EVIL} comes")
    await page.locator("dialog").get_by_label("Role").select_option("auditor")
    await picture(page, "console-new-user")
    await confirm(page, "Save")
    await told(page, f"The user {EVIL} comes was made.")
    row = page.locator("tr", has_text="comes")
    await expect(row).to_contain_text("auditor")
    await page.get_by_label("State").select_option("disabled")
    await page.get_by_role("button", name="Search").click()
    await expect(page.locator("tbody tr")).to_have_count(0)
    await page.get_by_label("State").select_option("enabled")
    await page.get_by_role("button", name="Search").click()
    await expect(row).to_have_count(1)
    assert [one["set_role"] for one in (await api(door, "GET", "/users?search=coming"))["data"]] == ["auditor"]


async def test_sessions_of_everybody_are_seen_and_ended(door: RunningDoor, new_context: NewContext) -> None:
    assert door.app.door is not None
    sessions, evil = door.app.door.sessions, user_id(ISSUER, "evil")
    for agent in ("Firefox", "Opera", EVIL):
        await sessions.begin(Arrival(evil, ISSUER, "10.0.0.7", agent))
    page = await opened(door, new_context, "sessions")
    await expect(page.locator("tbody tr")).to_have_count(4)
    await page.locator("tr", has_text="Opera").get_by_role("button", name="Sign out here").click()
    await expect(page.locator("dialog")).to_contain_text(f"This session of {EVIL} ends")
    await confirm(page, "Sign out here")
    await told(page, f"A session of {EVIL} was ended.")
    await expect(page.locator("tbody tr")).to_have_count(3)
    assert sorted(one.agent for one in await sessions.of_user(evil)) == [EVIL, "Firefox"]
    await page.locator("tr", has_text="Firefox").get_by_role("button", name="Sign out everywhere").click()
    await confirm(page, "Sign out everywhere")
    await expect(page.locator("tbody tr")).to_have_count(1)
    assert await sessions.of_user(evil) == []


async def test_every_page_is_for_everybody_and_what_others_wrote_stays_inert(
    door: RunningDoor, new_context: NewContext, waiting: list[asyncio.Task[int]]
) -> None:
    page = await opened(door, new_context, "overview", viewport={"width": 320, "height": 640}, color_scheme="light")
    shown = await toured(page, user_id(ISSUER, "evil"), "narrow-light")
    assert sum(EVIL in text for text in shown) >= 6, "pages that show what others wrote"


async def test_an_auditor_sees_all_and_can_change_nothing(
    door: RunningDoor, new_context: NewContext, waiting: list[asyncio.Task[int]]
) -> None:
    assert door.app.door is not None
    auditor = await known(door, "auditor", "Looks On", set_role="auditor")
    page = await (await new_context(locale="ja-JP", color_scheme="dark")).new_page()
    await page.goto(door.url + await local_link.make(door.app.door.store, auditor))
    await page.goto(f"{door.url}/console")
    await arrived(page)
    await expect(page.locator("#header nav")).to_contain_text("管理コンソール")
    await expect(page.locator(".stage > .notice")).to_contain_text("変更はできません")
    await toured(page, auditor, "dark-ja", may={"検索", "さらに表示", "調べる"}, rules=["color-contrast"])
    await page.evaluate(GO, "/console/policies/everyone")
    await page.get_by_role("button", name="調べる").click()
    await expect(page.locator("main")).to_contain_text("役割とグループは現在のもの", timeout=30_000)
    assert await page.locator("main .notice.bad").count() == 0
    act = "([path, method]) => fetch(path, {method, body: '{}'}).then(answer => answer.status)"
    for path, method in (("policies/everyone", "PUT"), ("policies/everyone", "DELETE"), ("keys", "POST")):
        assert await page.evaluate(act, [f"/admin/v1/{path}", method]) == 403, path


async def toured(
    page: Page, user: str, name: str, may: set[str] | None = None, rules: Sequence[str] = RULES
) -> list[str]:
    """What each page shows, after a look at each. may: what buttons may be called; None: anything."""
    wide = (page.viewport_size or {})["width"]
    found = []
    for path in CONSOLE_PAGES:
        await page.evaluate(GO, f"/console/{path.format(user=user)}")
        await arrived(page)
        await picture(page, f"console-{path.partition('?')[0].replace('/', '-').format(user='one')}-{name}")
        assert await page.locator(".page-body .notice.bad").count() == 0, path
        assert await page.locator("main img").count() == 0, path
        assert may is None or set(await page.locator("main button").all_inner_texts()) <= may, path
        assert await page.evaluate("document.documentElement.scrollWidth") <= wide, path
        assert await faults_of_access(page, rules) == [], path
        found.append(await page.inner_text("main"))
    return found
