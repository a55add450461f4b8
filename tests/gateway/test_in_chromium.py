"""Sign-in as people do it: a real Chromium, a real provider, our pages."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from playwright.async_api import Page

from gateway.identity import local_link
from gateway.identity.api_keys import local_admin
from tests.external.provider import RealProvider
from tests.gateway.chromium import NewContext, picture
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor, free_port

pytestmark = pytest.mark.slow

FETCH = "path => fetch(path).then(async answer => [answer.status, answer.redirected, await answer.text()])"


@pytest.fixture
async def door(provider: RealProvider, sign_in_door: SignInDoor) -> RunningDoor:
    await provider.people(
        hanako={"name": "山田 花子", "email": "hanako@example.com", "groups": ["platform", "sales"]},
        taro={"name": "太郎"},
    )
    return await sign_in_door(provider, issuer={"name": "Example ID", "group_roles": {"platform": "admin"}})


@asynccontextmanager
async def tls_in_front(plain: int, secure: int, folder: Path) -> AsyncIterator[None]:
    """What a company's reverse proxy is to browsers: the same bytes behind TLS."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection("127.0.0.1", plain)
        await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder))
    server = await asyncio.start_server(serve, "127.0.0.1", secure, ssl=context)
    yield
    server.close()


def self_signed(folder: Path) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    draft = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    dated = draft.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    file = folder / "tls.pem"
    file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + dated.sign(key, SHA256()).public_bytes(Encoding.PEM)
    )
    return file


async def sign_in(page: Page, login: str) -> None:
    """From the page with the choice to the one that says who is signed in."""
    await page.click("a.button")
    await page.fill("input[name=login]", login)
    await page.click("button[value=sign-in]")
    await page.wait_for_url("**/chat")
    await page.goto(page.url.removesuffix("chat"))


async def test_a_person_signs_in_sees_why_and_signs_out_here_and_there(
    door: RunningDoor, provider: RealProvider, new_context: NewContext
) -> None:
    page = await (await new_context(locale="ja-JP")).new_page()
    await page.goto(door.url)
    assert "Example ID でサインイン" in await page.inner_text("main")
    await picture(page, "choice-ja")
    await sign_in(page, "hanako")
    assert page.url == f"{door.url}/"
    text = await page.inner_text("main")
    for said in ("山田 花子", "管理者", "platform", "sales"):
        assert said in text
    await picture(page, "landing-ja")
    assert await page.evaluate("document.cookie") == "", "a script can read the session's cookie"
    await page.click("a[href='/account']")
    assert "このブラウザー" in await page.inner_text("main")
    await page.go_back()
    await page.click("button")  # our form, whose answer leads to another host: the policy has to let it
    await page.wait_for_url(f"{provider.issuer}/session/end**")
    await page.click("button[name=logout]")
    await page.wait_for_url(f"{door.url}/")
    assert "でサインイン" in await page.inner_text("main")
    await page.click("a.button")
    assert await page.locator("input[name=login]").count() == 1, "the provider still knows the person"


async def test_behind_tls_the_browser_keeps_the_strictest_cookie(
    provider: RealProvider, sign_in_door: SignInDoor, new_context: NewContext, tmp_path: Path
) -> None:
    await provider.people(taro={"name": "太郎"})
    plain, secure = free_port(), free_port()
    url = f"https://localhost:{secure}"
    await sign_in_door(provider, port=plain, public_url=url)
    await provider.gateway_at(url)
    async with tls_in_front(plain, secure, tmp_path):
        context = await new_context(ignore_https_errors=True)
        page = await context.new_page()
        await page.goto(url)
        await sign_in(page, "taro")
        assert page.url == f"{url}/"
        assert "太郎" in await page.inner_text("main")
        (cookie,) = [cookie for cookie in await context.cookies(url) if cookie["name"] == "__Host-sekisho"]
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, True, "Lax", "/")
        await page.click("button")
        await page.wait_for_url(f"{provider.issuer}/session/end**")
        await page.click("button[name=logout]")
        await page.wait_for_url(f"{url}/")
        assert "Sign in with" in await page.inner_text("main")


async def test_a_page_that_needs_a_session_comes_back_after_sign_in(door: RunningDoor, new_context: NewContext) -> None:
    page = await (await new_context()).new_page()
    await page.goto(f"{door.url}/account")
    await page.fill("input[name=login]", "taro")
    await page.click("button[value=sign-in]")
    await page.wait_for_url(f"{door.url}/account")
    assert "this browser" in await page.inner_text("main")
    await picture(page, "account-en")


async def test_a_script_in_the_background_gets_a_401_and_no_page(door: RunningDoor, new_context: NewContext) -> None:
    page = await (await new_context(bypass_csp=True)).new_page()  # a script at all: our pages allow none
    await page.goto(door.url)
    for path in ("/account", "/auth/session", "/v1/models"):
        status, redirected, body = await page.evaluate(FETCH, path)
        assert (status, redirected) == (401, False)
        assert '"error"' in body
    await sign_in(page, "taro")
    assert (await page.evaluate(FETCH, "/v1/models"))[0] == 200


async def test_a_planted_session_is_not_the_one_that_is_signed_in(door: RunningDoor, new_context: NewContext) -> None:
    attacker, victim = await new_context(), await new_context()
    own = await attacker.new_page()
    await own.goto(door.url)
    await sign_in(own, "taro")
    planted = {cookie["name"]: cookie["value"] for cookie in await attacker.cookies(door.url)}["sekisho"]
    await victim.add_cookies([{"name": "sekisho", "value": planted, "url": door.url, "httpOnly": True}])
    page = await victim.new_page()
    await page.goto(f"{door.url}/auth/sign-in")
    await page.fill("input[name=login]", "hanako")
    await page.click("button[value=sign-in]")
    await page.wait_for_url(f"{door.url}/chat")
    await page.goto(door.url)
    assert "花子" in await page.inner_text("main")
    await own.reload()
    assert "Sign in with" in await own.inner_text("main"), "the planted session sees the victim's sign-in"


async def test_a_replayed_code_and_a_wrong_state_are_told_on_a_page(door: RunningDoor, new_context: NewContext) -> None:
    context = await new_context()
    page = await context.new_page()
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if "/auth/callback" in request.url else None)
    await page.goto(door.url)
    await sign_in(page, "taro")
    answer = await page.goto(seen[0])
    assert answer is not None
    assert answer.status == 400
    assert "used already" in await page.inner_text("main")
    await picture(page, "failure-en")
    answer = await page.goto(f"{door.url}/auth/callback?state=made-up&code=x")
    assert answer is not None
    assert answer.status == 400
    await page.click("a.button")
    assert "太郎" in await page.inner_text("main"), "a failed attempt ended the session that was there"


async def test_an_id_token_of_another_sign_in_is_told_on_a_page(
    door: RunningDoor, new_context: NewContext, redis_url: str
) -> None:
    page = await (await new_context()).new_page()
    await page.goto(f"{door.url}/auth/sign-in")
    server = redis.Redis.from_url(redis_url)
    (key,) = server.keys("*:sign-in:*")
    server.set(key, json.dumps(json.loads(server.get(key)) | {"nonce": "another"}), ex=600)
    await page.fill("input[name=login]", "taro")
    await page.click("button[value=sign-in]")
    await page.wait_for_url(f"{door.url}/auth/callback?**")
    assert "cannot be trusted" in await page.inner_text("main")
    await page.goto(door.url)
    assert "Sign in with" in await page.inner_text("main")


async def test_another_sites_form_cannot_sign_a_person_out(door: RunningDoor, new_context: NewContext) -> None:
    context = await new_context()
    page = await context.new_page()
    await page.goto(door.url)
    await sign_in(page, "taro")
    evil = await context.new_page()
    # Of the same site by a browser's rules, so the cookie comes along: what protects is the origin.
    elsewhere = f"http://127.0.0.1:{free_port()}/"
    form = f'<form method="post" action="{door.url}/auth/sign-out"><button>win</button></form>'
    await evil.route(elsewhere, lambda route: route.fulfill(content_type="text/html", body=form))
    await evil.goto(elsewhere)
    async with evil.expect_response("**/auth/sign-out") as caught:
        await evil.click("button")
    answer = await caught.value
    assert "sekisho=" in (await answer.request.all_headers())["cookie"]
    assert answer.status == 403
    await page.reload()
    assert "太郎" in await page.inner_text("main")


async def test_the_providers_logout_reaches_an_open_page(
    door: RunningDoor, provider: RealProvider, new_context: NewContext
) -> None:
    page = await (await new_context()).new_page()
    await page.goto(door.url)
    await sign_in(page, "taro")
    assert await provider.log_out("taro")
    await page.reload()
    assert "Sign in with Example ID" in await page.inner_text("main")


async def test_a_refresh_goes_unnoticed(door: RunningDoor, provider: RealProvider, new_context: NewContext) -> None:
    assert door.app.door is not None
    page = await (await new_context()).new_page()
    await page.goto(door.url)
    await sign_in(page, "taro")
    (session,) = await door.app.door.sessions.list()
    await door.app.door.sessions.replace(session, msgspec.structs.replace(session, access_expires=session.created))
    asked = await provider.hits("/token")
    await page.reload()
    assert "太郎" in await page.inner_text("main")
    assert await provider.hits("/token") == asked + 1


async def test_the_local_link_in_a_browser(sign_in_door: SignInDoor, new_context: NewContext) -> None:
    door = await sign_in_door()
    assert door.app.door is not None
    page = await (await new_context(locale="en-GB")).new_page()
    await page.goto(door.url)
    assert "./sekisho sign-in" in await page.inner_text("main")
    path = await local_link.make(door.app.door.store, (await local_admin(door.app.door.directory)).id)
    await page.goto(door.url + path)
    assert page.url == f"{door.url}/chat", "the token stays in the address bar"
    await page.goto(door.url)
    assert "Local admin" in await page.inner_text("main")
    await picture(page, "landing-en")
    await page.click("button")
    await page.wait_for_url(f"{door.url}/")
    assert "./sekisho sign-in" in await page.inner_text("main")
