"""The provider that other tests trust: it is a real one, and does what they command."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.external.provider import CLIENT_ID, CLIENT_SECRET, RealProvider

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


async def _get(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        found: dict[str, Any] = await response.json()
        return found


async def _exchange(provider: RealProvider, form: dict[str, str]) -> dict[str, Any]:
    credentials = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    async with (
        aiohttp.ClientSession(headers={"authorization": f"Basic {credentials}"}) as client,
        client.post(f"{provider.issuer}/token", data=form) as answer,
    ):
        assert answer.status == 200, await answer.text()
        tokens: dict[str, Any] = await answer.json()
        return tokens


async def _code(provider: RealProvider, login: str, redirect_uri: str) -> str:
    """Sign in as a browser would, up to the redirect back."""
    asked = {"client_id": CLIENT_ID, "response_type": "code", "scope": "openid", "redirect_uri": redirect_uri}
    query = urlencode(asked | {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "state": "s"})
    jar = aiohttp.CookieJar(unsafe=True)  # takes cookies of an address without a name
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        async with browser.get(f"{provider.issuer}/auth?{query}") as form:
            assert 'name="login"' in await form.text()
            page = form.url
        async with browser.post(page, data={"login": login, "do": "sign-in"}, allow_redirects=False) as answer:
            onward = answer.headers["location"]
        async with browser.get(onward, allow_redirects=False) as answer:
            back = parse_qs(urlsplit(answer.headers["location"]).query)
    assert back["state"] == ["s"]
    assert back["iss"] == [provider.issuer]
    return back["code"][0]


async def test_its_tokens_can_be_checked_with_what_it_publishes(provider: RealProvider) -> None:
    await provider.people(hanako={"groups": ["sales"], "name": "花子"})
    metadata = await _get(f"{provider.issuer}/.well-known/openid-configuration")
    assert metadata["issuer"] == provider.issuer
    keys = KeySet.import_key_set(await _get(metadata["jwks_uri"]))
    access = jwt.decode(await provider.access_token("hanako"), keys)
    assert access.header["typ"] == "at+jwt"
    assert access.claims["sub"] == "hanako"
    assert access.claims["groups"] == ["sales"]
    identity = jwt.decode(await provider.id_token("hanako", nonce="n"), keys)
    assert identity.claims["nonce"] == "n"
    assert identity.claims["name"] == "花子"
    minted = jwt.decode(await provider.mint({"sub": "x"}, alg="ES256"), keys, ["ES256"])
    assert minted.claims == {"sub": "x"}


async def test_a_program_gets_a_token_at_its_token_endpoint(provider: RealProvider) -> None:
    form = {"grant_type": "client_credentials", "resource": "https://ai.example.com"}
    token = (await _exchange(provider, form))["access_token"]
    keys = KeySet.import_key_set(await _get(f"{provider.issuer}/jwks"))
    claims = jwt.decode(token, keys).claims
    assert (claims["sub"], claims["aud"]) == (CLIENT_ID, "https://ai.example.com")


async def test_it_changes_its_keys_stops_and_comes_back(provider: RealProvider) -> None:
    before = {key["kid"] for key in await provider.keys()}
    await provider.rotate()
    await provider.stop()
    await provider.start()
    after = {key["kid"] for key in (await _get(f"{provider.issuer}/jwks"))["keys"]}
    assert before & after == set()
    assert await provider.hits("/jwks") == 1


async def test_a_person_signs_in_refreshes_and_is_logged_out_at_every_client(provider: RealProvider) -> None:
    told: list[str] = []

    async def hear(request: web.Request) -> web.Response:
        told.append(str((await request.post())["logout_token"]))
        return web.Response()

    gateway = web.Application()
    gateway.router.add_post("/auth/backchannel-logout", hear)
    runner = web.AppRunner(gateway)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await provider.gateway_at(url)
    await provider.people(hanako={})
    redirect = f"{url}/auth/callback"
    form = {"grant_type": "authorization_code", "code_verifier": VERIFIER, "redirect_uri": redirect}
    tokens = await _exchange(provider, form | {"code": await _code(provider, "hanako", redirect)})
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await _exchange(provider, refresh))["refresh_token"] != tokens["refresh_token"]
    sessions = await provider.log_out("hanako")
    keys = KeySet.import_key_set(await _get(f"{provider.issuer}/jwks"))
    identity, logout = (jwt.decode(token, keys) for token in (tokens["id_token"], told[0]))
    assert logout.header["typ"] == "logout+jwt"
    assert logout.claims["sid"] == sessions[0]["sid"]
    assert identity.claims["sub"] == logout.claims["sub"] == "hanako"
    await runner.cleanup()
