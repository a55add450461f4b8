"""Signing in at a real provider: bound to the browser that began it, once, and told where it fails."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.identity import code_flow
from gateway.identity.oidc import fetching
from gateway.identity.records import User, user_id
from gateway.identity.throttle import Minutes
from tests.external.provider import MakeProvider, RealProvider
from tests.gateway.conftest import RunningDoor, ask
from tests.gateway.signing_in import NewBrowser, SignInDoor, query, text_of

GROUP_ROLES = {"group_roles": {"platform": "admin"}}


@pytest.fixture
async def door(provider: RealProvider, sign_in_door: SignInDoor) -> RunningDoor:
    await provider.people(
        hanako={"name": "花子", "email": "hanako@example.com", "groups": ["platform", "sales"]},
        taro={"name": "太郎"},
    )
    return await sign_in_door(provider, issuer=GROUP_ROLES)


async def test_a_person_signs_in_and_learns_who_they_are_and_why(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    choice = await browser.get("/")
    assert choice.status == 200
    assert "/auth/sign-in?issuer=" in choice.text
    page = await browser.sign_in("hanako")
    assert (page.status, page.location) == (303, "/chat")
    assert "HttpOnly" in page.headers["set-cookie"]
    landing = await browser.get("/")
    for said in ("花子", "hanako@example.com", "admin", "platform", "sales"):
        assert said in text_of(landing)
    told = json.loads((await browser.background("/auth/session")).text)
    assert told["role"] == "admin"
    assert any("platform" in reason for reason in told["why"])
    assert told["id"].startswith("ses_")
    assert browser.cookie() not in landing.text + json.dumps(told)


async def test_a_session_opens_what_a_key_opens(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    await browser.sign_in("taro")
    assert (await browser.background("/v1/models")).status == 200
    assert (await browser.background("/v1/chat/completions", "POST", json=ask())).status == 200
    assert (await browser.background("/metrics")).status == 403


async def test_the_request_to_the_provider_has_pkce_state_and_nonce_of_its_own_each_time(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser, redis_url: str
) -> None:
    browser = new_browser(door)
    first, second = [query(await browser.to_the_provider()) for _ in range(2)]
    assert first["code_challenge_method"] == "S256"
    assert first["redirect_uri"] == f"{door.url}/auth/callback"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43
        assert first[name] != second[name]
    keys = redis.Redis.from_url(redis_url).keys("*:sign-in:*")
    assert len(keys) == 2
    assert not any(first["state"].encode() in key for key in keys)


async def test_two_tabs_sign_in_side_by_side(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    one, other = await browser.to_the_provider(), await browser.to_the_provider()
    back = await browser.at_the_provider(one, "hanako")
    assert (await browser.get(back)).status == 303
    assert (await browser.get(await browser.at_the_provider(other, "hanako"))).status == 303


async def test_nobody_begins_without_end(
    door: RunningDoor, new_browser: NewBrowser, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert door.app.door is not None
    monkeypatch.setattr(door.app.door.browsers.sign_in, "_begun", Minutes(3, 10))
    browser = new_browser(door)
    pages = [await browser.get("/auth/sign-in") for _ in range(5)]
    assert [page.status for page in pages] == [303, 303, 303, 429, 429]
    assert 0 < int(pages[-1].headers["retry-after"]) <= 61
    assert len(redis.Redis.from_url(redis_url).keys("*:sign-in:*")) == 3


async def test_a_code_opens_once(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    back = await browser.at_the_provider(await browser.to_the_provider(), "hanako")
    assert (await browser.get(back)).status == 303
    token = browser.cookie()
    again = await browser.get(back)
    assert again.status == 400
    assert "used already" in again.text
    assert browser.cookie() == token


async def test_a_code_from_another_browser_is_worth_nothing(door: RunningDoor, new_browser: NewBrowser) -> None:
    """Login CSRF: somebody has a victim's browser open the end of his own sign-in."""
    attacker, victim = new_browser(door), new_browser(door)
    back = await attacker.at_the_provider(await attacker.to_the_provider(), "taro")
    assert (await victim.get(back)).status == 400
    await victim.to_the_provider()
    assert (await victim.get(back)).status == 400
    assert victim.cookie() is None
    assert (await attacker.get(back)).status == 303, "the attempt of another browser used it up"


@pytest.mark.parametrize("state", ["", "x", "a" * 43, "\0", "%00", "é" * 500])
async def test_a_wrong_state_is_refused(door: RunningDoor, new_browser: NewBrowser, state: str) -> None:
    browser = new_browser(door)
    back = query(await browser.at_the_provider(await browser.to_the_provider(), "hanako"))
    page = await browser.get(f"/auth/callback?{urlencode(back | {'state': state})}")
    assert page.status == 400
    assert browser.cookie() is None


async def test_an_id_token_of_another_sign_in_is_refused(
    door: RunningDoor, new_browser: NewBrowser, redis_url: str
) -> None:
    browser, server = new_browser(door), redis.Redis.from_url(redis_url)
    back = await browser.at_the_provider(await browser.to_the_provider(), "hanako")
    (key,) = server.keys("*:sign-in:*")
    server.set(key, json.dumps(json.loads(server.get(key)) | {"nonce": "another"}), ex=600)
    page = await browser.get(back)
    assert page.status == 400
    assert "cannot be trusted" in page.text
    assert browser.cookie() is None


async def test_a_stolen_code_is_worth_nothing_without_the_verifier(
    door: RunningDoor, new_browser: NewBrowser, redis_url: str
) -> None:
    browser, server = new_browser(door), redis.Redis.from_url(redis_url)
    back = await browser.at_the_provider(await browser.to_the_provider(), "hanako")
    (key,) = server.keys("*:sign-in:*")
    server.set(key, json.dumps(json.loads(server.get(key)) | {"verifier": "v" * 43}), ex=600)
    page = await browser.get(back)
    assert page.status == 400
    assert "invalid_grant" in page.text


@pytest.mark.parametrize("iss", ["https://evil.example", "", None])
async def test_an_answer_of_another_provider_is_refused(
    door: RunningDoor, new_browser: NewBrowser, iss: str | None
) -> None:
    browser = new_browser(door)
    back = query(await browser.at_the_provider(await browser.to_the_provider(), "hanako"))
    del back["iss"]
    page = await browser.get(f"/auth/callback?{urlencode(back if iss is None else back | {'iss': iss})}")
    assert page.status == 400
    assert browser.cookie() is None


async def test_what_the_provider_says_no_with_is_shown_escaped(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    asked = query(await browser.to_the_provider())
    words = {"error": "access_denied", "error_description": "<script>alert(1)</script>\x1b", "iss": provider.issuer}
    page = await browser.get(f"/auth/callback?{urlencode(words | {'state': asked['state']})}")
    assert page.status == 400
    assert "access_denied" in page.text
    assert "&lt;script&gt;" in page.text
    assert "<script" not in page.text
    assert "\x1b" not in page.text
    unasked = await browser.get(f"/auth/callback?{urlencode(words | {'state': 'x' * 43})}")
    assert "access_denied" not in unasked.text, "anybody could put words on our page"


@pytest.mark.parametrize(
    ("asked", "goes_to"),
    [("/account", "/account"), ("/x?a=1&b=2", "/x?a=1&b=2"), ("//evil.example", "/"), ("https://evil.example/", "/"),
     ("/\\evil.example", "/"), ("/auth/sign-in", "/"), ("/\r\nx-evil: 1", "/")],
)  # fmt: skip
async def test_the_browser_comes_back_to_a_page_of_ours(
    door: RunningDoor, new_browser: NewBrowser, asked: str, goes_to: str
) -> None:
    page = await new_browser(door).sign_in("hanako", f"/auth/sign-in?return_to={quote(asked, safe='')}")
    assert page.location == goes_to


async def test_a_session_that_was_there_before_is_never_taken_over(door: RunningDoor, new_browser: NewBrowser) -> None:
    """Session fixation: a cookie that somebody planted opens nothing afterwards."""
    assert door.app.door is not None
    attacker, victim = new_browser(door), new_browser(door)
    await attacker.sign_in("taro")
    planted = attacker.cookie()
    assert planted is not None
    victim.set_cookie(planted)
    await victim.sign_in("hanako")
    assert victim.cookie() not in (planted, None)
    assert await door.app.door.sessions.find(planted) is None
    assert (await attacker.background("/auth/session")).status == 401
    made_up = new_browser(door)
    made_up.set_cookie("A" * 43)
    await made_up.sign_in("hanako")
    assert made_up.cookie() != "A" * 43


async def test_a_disabled_person_is_signed_out_and_kept_out(door: RunningDoor, new_browser: NewBrowser) -> None:
    assert door.app.door is not None
    browser = new_browser(door)
    await browser.sign_in("taro")
    issuer = door.settings.issuers[0].issuer
    await door.app.door.directory.change(
        None, User, user_id(issuer, "taro"), lambda user: msgspec.structs.replace(user, disabled=True)
    )
    door.app.door.lookup.forget_all()
    refused = await browser.background("/auth/session")
    assert (refused.status, json.loads(refused.text)["error"]["code"]) == (403, "account_disabled")
    assert (await browser.background("/auth/session")).status == 401
    page = await browser.sign_in("taro")
    assert page.status == 403
    assert "disabled" in page.text


async def test_too_many_groups_for_a_token_are_told_with_a_way_out(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    await provider.people(
        boss={"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph.example"}}}
    )
    page = await new_browser(door).sign_in("boss")
    assert page.status == 403
    assert "app roles" in page.text


async def test_groups_that_only_the_userinfo_tells_count(
    make_provider: MakeProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    provider = await make_provider(conformIdTokenClaims=True)
    await provider.people(hanako={"groups": ["platform"]})
    door = await sign_in_door(provider, issuer=GROUP_ROLES)
    browser = new_browser(door)
    await browser.sign_in("hanako")
    assert json.loads((await browser.background("/auth/session")).text)["role"] == "admin"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"status": 200, "body": '{"sub": "another", "groups": ["platform"]}'}, 303),
        ({"status": 200, "body": '["platform"]'}, 303),
        ({"status": 200, "body": "a signed one"}, 303),
        ({"status": 401, "body": '{"sub": "hanako", "groups": ["platform"]}'}, 303),
        ({"status": 200, "body": '{"sub": "hanako", "groups": ["platform"]}' + " " * 300_000}, 503),
    ],
)
async def test_a_userinfo_that_cannot_be_believed_gives_nobody_a_role(
    make_provider: MakeProvider,
    sign_in_door: SignInDoor,
    new_browser: NewBrowser,
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, Any],
    status: int,
) -> None:
    monkeypatch.setattr(fetching, "LARGEST_ANSWER", 200_000)
    provider = await make_provider(conformIdTokenClaims=True)
    await provider.people(hanako={})
    await provider.faults(me=fault)
    browser = new_browser(await sign_in_door(provider, issuer=GROUP_ROLES))
    assert (await browser.sign_in("hanako")).status == status
    told = await browser.background("/auth/session")
    assert json.loads(told.text).get("role") == ("user" if status == 303 else None)


async def test_a_provider_that_does_not_answer_is_waited_for_a_bounded_time(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_flow, "_SECONDS", 0.1)
    browser = new_browser(door)
    back = await browser.at_the_provider(await browser.to_the_provider(), "hanako")
    await provider.faults(token={"delay": 3})
    assert (await browser.get(back)).status == 503


async def test_with_several_providers_people_choose(
    make_provider: MakeProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    first, second = await make_provider(), await make_provider()
    await first.people(hanako={})
    await second.people(hanako={})
    door = await sign_in_door(first, second)
    browser, other = new_browser(door), new_browser(door)
    page = await browser.get("/auth/sign-in?return_to=/account")
    assert page.status == 200
    for provider in (first, second):
        assert f"issuer={quote(provider.issuer, safe='')}&amp;return_to=%2Faccount" in page.text
    subjects = set()
    for one, provider in ((browser, first), (other, second)):
        await one.sign_in("hanako", f"/auth/sign-in?issuer={quote(provider.issuer, safe='')}")
        subjects.add(json.loads((await one.background("/auth/session")).text)["subject"])
    assert len(subjects) == 2, "the same subject at another provider is another person"
    unknown = await browser.get("/auth/sign-in?issuer=https://evil.example")
    assert unknown.status == 404


async def test_a_provider_that_is_away_is_a_503_that_says_so_and_later_all_is_well(
    provider: RealProvider, sign_in_door: SignInDoor, new_browser: NewBrowser
) -> None:
    await provider.people(hanako={})
    door = await sign_in_door(provider)
    await provider.stop()
    browser = new_browser(door)
    page = await browser.get("/auth/sign-in")
    if page.status == 303:  # it had described itself before it went
        await provider.start()
        back = await browser.at_the_provider(page.location, "hanako")
        await provider.stop()
        page = await browser.get(back)
    assert page.status == 503
    assert "cannot be reached" in page.text
    assert page.headers["retry-after"]
    await provider.start()


@pytest.mark.parametrize(
    "fault",
    [{"status": 200, "body": "<html>"}, {"status": 200, "body": "{}"}, {"status": 200, "size": 2_000_000},
     {"status": 500, "body": "oops"}, {"status": 302, "headers": {"location": "https://evil.example"}},
     {"status": 400, "body": '{"error": "invalid_grant", "error_description": "<b>no</b>"}'},
     {"status": 400, "body": '{"error": {"a": 1}}'}, {"status": 401, "body": ""},
     {"status": 200, "body": '{"access_token": "a", "id_token": "x.y.z", "expires_in": "soon"}'},
     {"status": 200, "body": '{"access_token": "a", "id_token": "x.y.z"}'},
     {"status": 200, "body": '{"access_token": "a"}'}],
)  # fmt: skip
async def test_whatever_the_token_endpoint_answers_nobody_gets_in_and_the_page_says_something(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser, fault: dict[str, Any]
) -> None:
    browser = new_browser(door)
    back = await browser.at_the_provider(await browser.to_the_provider(), "hanako")
    await provider.faults(token=fault)
    page = await browser.get(back)
    assert page.status in (400, 503)
    assert "<b>" not in page.text
    assert "<h1>" in page.text
    assert browser.cookie() is None


async def test_a_background_request_gets_json_and_only_a_navigation_is_sent_to_sign_in(
    door: RunningDoor, new_browser: NewBrowser
) -> None:
    browser = new_browser(door)
    page = await browser.get("/account?tab=1")
    assert (page.status, page.location) == (303, "/auth/sign-in?return_to=/account%3Ftab%3D1")
    background = await browser.background("/account")
    assert background.status == 401
    assert set(json.loads(background.text)) == {"error"}
    for path in ("/v1/models", "/auth/session"):
        assert (await browser.get(path)).status == 401, "no page: nothing to come back to"
    browser.set_cookie("A" * 43)
    ended = await browser.background("/v1/chat/completions", "POST", json=ask())
    assert (ended.status, json.loads(ended.text)["error"]["code"]) == (401, "session_ended")
    page = await browser.sign_in("hanako", page.location)
    assert page.location == "/account?tab=1"
    assert "this browser" in (await browser.get(page.location)).text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_another_sites_page_cannot_act_with_a_persons_session(
    door: RunningDoor, new_browser: NewBrowser, origin: str | None
) -> None:
    browser = new_browser(door)
    await browser.sign_in("hanako")
    for path in ("/v1/chat/completions", "/auth/sign-out", "/admin/v1/users"):
        page = await browser.post(path, origin=origin, json=ask())
        assert page.status == 403
    assert (await browser.background("/auth/session")).status == 200
    assert door.backend.asked == []


async def test_names_from_the_provider_are_escaped(
    door: RunningDoor, provider: RealProvider, new_browser: NewBrowser
) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    await provider.people(mallory={"name": evil, "email": evil, "groups": [evil]})
    browser = new_browser(door)
    back = await browser.at_the_provider(await browser.to_the_provider(), "mallory")
    await browser.get(back, **{"user-agent": evil})
    for path in ("/", "/account"):
        page = await browser.get(path)
        assert "<img" not in page.text
        assert "&lt;img" in page.text


async def test_pages_are_guarded_and_speak_two_languages(door: RunningDoor, new_browser: NewBrowser) -> None:
    browser = new_browser(door)
    page = await browser.get("/", **{"accept-language": "ja,en;q=0.5"})
    assert '<html lang="ja">' in page.text
    assert "サインイン" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert "<script" not in page.text
    assert "style=" not in page.text
    style = await browser.get("/web/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "http" not in style.text


async def test_while_redis_is_away_pages_say_so(door: RunningDoor, new_browser: NewBrowser) -> None:
    assert door.app.door is not None
    browser = new_browser(door)
    await browser.sign_in("hanako")
    door.app.door.store._open_until = float("inf")
    for path in ("/", "/auth/sign-in", "/account", "/auth/callback?state=x&code=y"):
        page = await browser.get(path)
        assert page.status == 503, path
    door.app.door.store._open_until = 0.0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_no_query_breaks_a_page(door: RunningDoor, new_browser: NewBrowser, data: st.DataObject) -> None:
    browser = new_browser(door)
    path = data.draw(st.sampled_from(["/auth/callback", "/auth/sign-in", "/auth/local", "/"]))
    names = st.sampled_from(["state", "code", "iss", "error", "issuer", "return_to", "token", "error_description"])
    pairs = data.draw(st.lists(st.tuples(names, st.text(max_size=50)), max_size=4))
    raw = data.draw(st.sampled_from([urlencode(pairs), "%", "&&==", "a=%ff%fe", "x" * 500, "a=1&" * 50]))
    browser.set_cookie(
        data.draw(st.sampled_from(["a" * 43, "x", "é"])).encode("ascii", "ignore").decode(), "sekisho-sign-in"
    )
    page = await browser.get(f"{path}?{raw}")
    assert page.status < 500
