"""Ways out: signing out here and at the provider, the provider's back channel, and refusals of a refresh."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import msgspec
import pytest
import redis

from backends.fake import chat_script
from gateway.identity.sessions import Session
from gateway.store import keys
from tests.external.provider import CLIENT_ID, MakeProvider, RealProvider
from tests.gateway.conftest import RunningDoor, ask, error_of, eventually
from tests.gateway.signing_in import Browser, NewBrowser, SignInDoor, query

EVENT = {"http://schemas.openid.net/event/backchannel-logout": {}}
BACK_CHANNEL = "/auth/backchannel-logout"


@pytest.fixture
async def door(provider: RealProvider, sign_in_door: SignInDoor) -> RunningDoor:
    await provider.people(hanako={"name": "花子"}, taro={})
    return await sign_in_door(provider)


async def session_of(door: RunningDoor, browser: Browser) -> Session:
    assert door.app.door is not None
    found = await door.app.door.sessions.find(browser.cookie() or "")
    assert found is not None
    return found


async def is_signed_in(browser: Browser) -> bool:
    return (await browser.background("/auth/session")).status == 200


async def tell(door: RunningDoor, token: str) -> aiohttp.ClientResponse:
    async with (
        aiohttp.ClientSession() as client,
        client.post(door.url + BACK_CHANNEL, data={"logout_token": token}) as response,
    ):
        await response.read()
        return response


def logout_token(provider: RealProvider, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": provider.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 120, "jti": "one", "events": EVENT}
    return {name: value for name, value in (claims | changes).items() if value is not None}


async def test_signing_out_ends_the_session_here_and_goes_on_to_the_provider(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    token = browser.cookie()
    landing = await browser.get("/")
    assert f"form-action 'self' {provider.issuer}" in landing.headers["content-security-policy"]
    page = await browser.post("/auth/sign-out")
    assert page.status == 303
    assert page.location.startswith(f"{provider.issuer}/session/end?")
    assert query(page.location)["post_logout_redirect_uri"] == f"{door.url}/"
    assert query(page.location)["id_token_hint"].count(".") == 2
    assert browser.cookie() is None
    browser.set_cookie(token or "")
    assert not await is_signed_in(browser)
    at_the_provider = await browser.get(page.location)
    assert "Sign out" in at_the_provider.text


async def test_signing_out_twice_or_without_a_session_is_no_fault(door: RunningDoor, new_browser: NewBrowser) -> None:
    page = await new_browser(door).post("/auth/sign-out")
    assert (page.status, page.location) == (303, "/")


async def test_signing_out_works_while_the_provider_is_away(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    await provider.stop()
    assert (await browser.post("/auth/sign-out")).status == 303
    assert not await is_signed_in(browser)
    await provider.start()


async def test_the_providers_logout_ends_its_session_here_and_no_other(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    hanako, taro = new_browser(door), new_browser(door)
    await hanako.sign_in("hanako")
    await taro.sign_in("taro")
    told = await provider.log_out("hanako")
    assert [one["sid"] for one in told] != []
    assert not await is_signed_in(hanako)
    assert await is_signed_in(taro)


async def test_a_sid_ends_one_browser_and_a_subject_alone_ends_all(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    browsers = [new_browser(door) for _ in range(3)]
    for browser in browsers:
        await browser.sign_in("hanako")
    sid = (await session_of(door, browsers[0])).sid
    assert sid
    foreign = await provider.mint(logout_token(provider, sid=sid, sub="taro", jti="0"))
    assert (await tell(door, foreign)).status == 200
    assert await is_signed_in(browsers[0]), "the session is not that person's"
    assert (await tell(door, await provider.mint(logout_token(provider, sid=sid, jti="1")))).status == 200
    assert [await is_signed_in(browser) for browser in browsers] == [False, True, True]
    assert (await tell(door, await provider.mint(logout_token(provider, sub="hanako", jti="2")))).status == 200
    assert [await is_signed_in(browser) for browser in browsers] == [False, False, False]


async def test_a_logout_token_works_once(door: RunningDoor, provider: RealProvider, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    token = await provider.mint(logout_token(provider, sub="hanako"))
    answer = await tell(door, token)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    await browser.sign_in("hanako")
    assert (await tell(door, token)).status == 400
    assert await is_signed_in(browser)


@pytest.mark.parametrize(
    "changes",
    [{"iss": "https://evil.example"}, {"aud": "another"}, {"jti": None}, {"iat": None}, {"events": None},
     {"events": {}}, {"nonce": "n"}, {"exp": 1}, {"sub": None}, {"sub": ["hanako"]}, {"sub": ""}],
)  # fmt: skip
async def test_a_bad_logout_token_ends_nothing(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser, changes: dict[str, Any]
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    token = await provider.mint(logout_token(provider, **{"sub": "hanako"} | changes))
    async with (
        aiohttp.ClientSession() as client,
        client.post(door.url + BACK_CHANNEL, data={"logout_token": token}) as response,
    ):
        await error_of(response, 400, "invalid_logout_token")
    assert await is_signed_in(browser)


async def test_a_forged_logout_token_ends_nothing(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    for token in (
        await provider.mint(logout_token(provider, sub="hanako"), foreign=True),
        await provider.id_token("hanako"),
        "a.b.c",
        "",
    ):
        assert (await tell(door, token)).status == 400
    for body in (b"\xff\xfe", b"logout_token=a&logout_token=b", b"{}", b"x" * 100_000):
        async with aiohttp.ClientSession() as client, client.post(door.url + BACK_CHANNEL, data=body) as response:
            assert response.status in (400, 413)
    assert await is_signed_in(browser)


async def make_due(door: RunningDoor, browser: Browser, **fields: Any) -> Session:
    """As if the provider's word were about to run out."""
    assert door.app.door is not None
    session = await session_of(door, browser)
    due = msgspec.structs.replace(session, **{"access_expires": int(time.time()) + 5} | fields)
    assert await door.app.door.sessions.replace(session, due)
    return due


async def test_tokens_are_refreshed_quietly_and_only_once_for_many_requests(
    make_provider: MakeProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    provider = await make_provider(rotateRefreshTokens=True)
    await provider.people(hanako={})
    door = await sign_in_door(provider, issuer={"scopes": ["openid", "offline_access"]})
    assert door.app.door is not None
    browser = new_browser(door)
    await browser.sign_in("hanako")
    before = await make_due(door, browser, access_expires=int(time.time()) - 5)
    asked = await provider.hits("/token")
    pages = await asyncio.gather(*(browser.background("/auth/session") for _ in range(20)))
    assert {page.status for page in pages} == {200}
    assert await provider.hits("/token") == asked + 1
    after = await session_of(door, browser)
    assert after.access_expires > time.time() + 60
    sessions = door.app.door.sessions
    assert sessions.tokens(after).refresh_token not in (sessions.tokens(before).refresh_token, "")
    await make_due(door, browser)
    assert await is_signed_in(browser), "the rotated refresh token was not kept"


async def test_what_a_refresh_says_of_groups_counts_from_then_on(
    provider: RealProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    await provider.people(hanako={"groups": ["platform"]})
    door = await sign_in_door(provider, issuer={"group_roles": {"platform": "admin"}})
    browser = new_browser(door)
    await browser.sign_in("hanako")
    assert json.loads((await browser.background("/auth/session")).text)["role"] == "admin"
    await provider.people(hanako={"groups": ["sales"]})
    await asyncio.sleep(1.1)  # tokens tell their age in seconds: the new one has to be the newer
    await make_due(door, browser)
    assert json.loads((await browser.background("/auth/session")).text)["role"] == "user"


async def test_a_refused_refresh_ends_the_session(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser, redis_url: str
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    session = await make_due(door, browser)
    await provider.faults(token={"status": 400, "body": '{"error": "invalid_grant"}'})
    page = await browser.background("/auth/session")
    assert (page.status, json.loads(page.text)["error"]["code"]) == (401, "session_ended")
    assert not redis.Redis.from_url(redis_url).exists(keys.session(session.id))


async def test_a_provider_that_is_away_ends_no_session_until_the_stated_bound(
    provider: RealProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    await provider.people(hanako={})
    door = await sign_in_door(provider, issuer={"stale_keys_seconds": 300})
    browser = new_browser(door)
    await browser.sign_in("hanako")
    await provider.stop()
    await make_due(door, browser)
    assert await is_signed_in(browser)
    await make_due(door, browser, access_expires=int(time.time()) - 299, try_after=0)
    assert await is_signed_in(browser)
    await make_due(door, browser, access_expires=int(time.time()) - 301)
    late = await browser.background("/auth/session")
    assert (late.status, late.headers["retry-after"] != "") == (503, True)
    await provider.start()
    await make_due(door, browser, access_expires=int(time.time()) - 301, try_after=0)
    assert await is_signed_in(browser)


async def test_a_provider_taken_out_of_the_settings_takes_its_sessions_with_it(
    door: RunningDoor, make_provider: MakeProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    other = await sign_in_door(await make_provider())
    moved = new_browser(other)
    moved.set_cookie(browser.cookie() or "")
    assert not await is_signed_in(moved)


async def test_the_end_of_a_session_ends_what_it_has_in_flight(door: RunningDoor, new_browser: NewBrowser) -> None:
    assert door.app.door is not None
    browser = new_browser(door)
    await browser.sign_in("hanako")
    session = await session_of(door, browser)
    door.backend.answer = lambda body: chat_script(("Hello", " world"), gap=30)
    body = ask(stream=True)
    streaming = asyncio.create_task(browser.background("/v1/chat/completions", "POST", json=body))
    await eventually(lambda: door.backend.asked)
    await door.app.door.sessions.end(session.id)
    page = await asyncio.wait_for(streaming, 10)
    assert "credential_revoked" in page.text
    await eventually(lambda: door.backend.asked[0].aborted)


async def test_an_id_token_too_long_for_an_address_is_left_out_of_it(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    await provider.people(boss={"groups": [f"department-{number:04}" for number in range(400)]})
    browser = new_browser(door)
    await browser.sign_in("boss")
    page = await browser.post("/auth/sign-out")
    assert "id_token_hint" not in query(page.location)
    assert query(page.location)["client_id"] == CLIENT_ID
