"""The one-time link of the local admin: once, for ten minutes, and only where no provider vouches for anybody."""

from __future__ import annotations

import json

import redis

from gateway.api.sign_in import local
from gateway.identity import local_link
from gateway.identity.api_keys import local_admin
from gateway.routes import ROUTES
from tests.external.provider import RealProvider
from tests.gateway.conftest import RunningDoor, StartDoor
from tests.gateway.signing_in import Browser, NewBrowser, SignInDoor


async def link(door: RunningDoor) -> str:
    assert door.app.door is not None
    return await local_link.make(door.app.door.store, (await local_admin(door.app.door.directory)).id)


async def role(browser: Browser) -> str | None:
    page = await browser.background("/auth/session")
    return str(json.loads(page.text)["role"]) if page.status == 200 else None


async def test_the_link_signs_the_local_admin_in_once(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser, second = new_browser(door), new_browser(door)
    path = await link(door)
    page = await browser.get(path)
    assert (page.status, page.location) == (303, "/chat")
    assert await role(browser) == "admin"
    assert "Local admin" in (await browser.get("/")).text
    again = await second.get(path)
    assert again.status == 400
    assert "used already" in again.text
    assert second.cookie() is None


async def test_the_link_is_stored_as_a_hash_and_runs_out(door: RunningDoor, redis_url: str) -> None:
    path = await link(door)
    token = path.partition("token=")[2]
    assert len(token) >= 43
    server = redis.Redis.from_url(redis_url)
    (key,) = server.keys("*:link:*")
    assert token.encode() not in key + server.get(key)
    assert 590 < server.ttl(key) <= 600


async def test_a_made_up_link_opens_nothing(door: RunningDoor, new_browser: NewBrowser) -> None:
    for query in ("", "?token=", "?token=x", "?token=a&token=b", "?token=" + "a" * 5000, "?token=%00"):
        browser = new_browser(door)
        assert (await browser.get(f"/auth/local{query}")).status == 400
        assert browser.cookie() is None


async def test_with_a_provider_there_is_no_local_admin(
    provider: RealProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    door = await sign_in_door(provider)
    browser = new_browser(door)
    assert (await browser.get(await link(door))).status == 400
    assert await role(browser) is None


async def test_where_only_keys_are_wanted_there_is_none_either(start_door: StartDoor, new_browser: NewBrowser) -> None:
    door = await start_door(local_sign_in=False)
    browser = new_browser(door)
    assert (await browser.get(await link(door))).status == 400
    assert "API keys" in (await browser.get("/")).text


async def test_a_provider_that_is_set_up_later_ends_the_local_admins_sessions(
    door: RunningDoor, provider: RealProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    await browser.get(await link(door))
    later = new_browser(await sign_in_door(provider))
    later.set_cookie(browser.cookie() or "")
    assert await role(later) is None


async def test_the_first_page_says_how_to_get_a_link(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    for path in ("/", "/auth/sign-in"):
        assert "./sekisho sign-in" in (await browser.get(path)).text


async def test_the_local_admin_signs_out_to_the_first_page(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    await browser.get(await link(door))
    page = await browser.post("/auth/sign-out")
    assert (page.status, page.location) == (303, "/")
    assert await role(browser) is None


def test_the_printed_path_is_the_route() -> None:
    assert [route.path for route in ROUTES if route.handler is local] == [local_link.PATH]
