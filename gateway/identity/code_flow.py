"""The authorization code flow towards one provider (OpenID Connect Core, PKCE): addresses out, tokens in.

Keeps nothing, and knows neither browsers nor sessions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlsplit

import httpx
import msgspec
from authlib.common.urls import add_params_to_uri
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from gateway.errors import ProviderAway
from gateway.identity.oidc import fetching
from gateway.identity.oidc.provider import Metadata, Provider

log = logging.getLogger("sekisho.identity")

CALLBACK = "/auth/callback"
_SECONDS = 15.0  # for a whole exchange: people wait for it
_LONGEST_TOKEN = 32 * 1024


class Answer(NamedTuple):
    """What the token endpoint gave."""

    id_token: str  # may be missing where tokens were refreshed
    access_token: str
    refresh_token: str
    expires: int  # Unix seconds; 0: it did not say


class Refused(Exception):
    """The provider said no: its code for it and its words."""

    def __init__(self, code: str, description: str = "") -> None:
        super().__init__(f"{code}: {description}" if description else code)
        self.code = code


class _Tokens(msgspec.Struct):
    access_token: str
    id_token: str = ""
    refresh_token: str = ""
    expires_in: float | str | None = None


class _Fault(msgspec.Struct):
    error: str
    error_description: str = ""


class CodeFlow:
    def __init__(self, provider: Provider, http: httpx.AsyncClient, public_url: str) -> None:
        self.provider = provider
        self.settings = provider.settings
        self._http = http
        self._public_url = public_url

    async def address(self, state: str, nonce: str, verifier: str) -> str:
        """Where the browser goes to sign in. Raises ProviderAway."""
        metadata = await self.provider.metadata()
        address: str = prepare_grant_uri(
            metadata.authorization_endpoint,
            client_id=self.settings.client_id,
            response_type="code",
            redirect_uri=self._public_url + CALLBACK,
            scope=" ".join(self.settings.scopes),
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return address

    async def exchange(self, code: str, verifier: str) -> Answer:
        """Raises Refused and ProviderAway."""
        redirect = self._public_url + CALLBACK
        return await self._ask("authorization_code", code=code, code_verifier=verifier, redirect_uri=redirect)

    async def renew(self, refresh_token: str) -> Answer:
        """Raises Refused and ProviderAway. A provider may give no new refresh token: then the old one stays good."""
        return await self._ask("refresh_token", refresh_token=refresh_token)

    async def farewell(self, id_token: str) -> str | None:
        """Where the browser goes to sign out (RP-initiated logout); None where the provider knows no such thing."""
        metadata = await self.provider.metadata()
        if not metadata.end_session_endpoint:
            return None
        parameters = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{self._public_url}/"}
        if id_token:
            parameters["id_token_hint"] = id_token
        address: str = add_params_to_uri(metadata.end_session_endpoint, list(parameters.items()))
        return address

    async def farewell_origin(self) -> str | None:
        """The host that a browser is sent to for that, as a Content-Security-Policy spells it."""
        try:
            parts = urlsplit((await self.provider.metadata()).end_session_endpoint)
        except ProviderAway:
            return None
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else None

    async def person(self, access_token: str) -> dict[str, Any]:
        """Claims that the provider keeps out of its ID tokens (its userinfo); empty where it has none to tell."""
        metadata = await self.provider.metadata()
        if not metadata.userinfo_endpoint or not access_token:
            return {}
        headers = {"authorization": f"Bearer {access_token}"}
        status, body = await self._call("GET", metadata.userinfo_endpoint, headers, b"")
        try:
            found = msgspec.json.decode(body) if status == 200 else {}
        except (msgspec.MsgspecError, RecursionError):
            found = {}  # a signed one, perhaps; nothing that we asked for
        return found if isinstance(found, dict) else {}

    async def _ask(self, grant: str, **fields: str) -> Answer:
        metadata = await self.provider.metadata()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        body: str = prepare_token_request(grant, **fields)
        url, headers, body = self._client_auth(metadata).prepare("POST", metadata.token_endpoint, headers, body)
        status, answer = await self._call("POST", url, headers, body.encode())
        if status != 200:
            raise self._refusal(status, answer)
        return _answer(answer)

    def _client_auth(self, metadata: Metadata) -> ClientAuth:
        secret = self.settings.client_secret
        if secret is None:
            return ClientAuth(self.settings.client_id, None, "none")
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749, 2.3.1: each of the two is form-encoded first.
            encoded = (quote_plus(self.settings.client_id), quote_plus(secret.get_secret_value()))
            return ClientAuth(*encoded, "client_secret_basic")
        return ClientAuth(self.settings.client_id, secret.get_secret_value(), "client_secret_post")

    def _refusal(self, status: int, body: bytes) -> Exception:
        if status == 429 or status >= 500:
            log.warning("%s answered %d at its token endpoint", self.provider.issuer, status)
            return _away()
        try:
            fault = msgspec.json.decode(body, type=_Fault)
        except (msgspec.MsgspecError, RecursionError):
            return Refused(f"http_{status}")
        return Refused(plain(fault.error, 64), plain(fault.error_description, 300))

    async def _call(self, method: str, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        headers = headers | {"accept": "application/json", "accept-encoding": "identity"}
        found = bytearray()
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._http.stream(method, url, headers=headers, content=body or None) as response,
            ):
                async for chunk in response.aiter_raw():
                    found += chunk
                    if len(found) > fetching.LARGEST_ANSWER:
                        raise ValueError(f"{url} answered more than {fetching.LARGEST_ANSWER} bytes")
                return response.status_code, bytes(found)
        except fetching.FAILURES as error:
            log.warning("%s cannot be asked: %s: %s", self.provider.issuer, type(error).__name__, error)
            raise _away() from error


def plain(text: str, longest: int) -> str:
    """What somebody else said, fit to be shown and logged."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:longest])


def _answer(body: bytes) -> Answer:
    try:
        tokens = msgspec.json.decode(body, type=_Tokens)
        seconds = float(tokens.expires_in or 0)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise Refused("unreadable_answer") from None
    if max(map(len, (tokens.id_token, tokens.access_token, tokens.refresh_token))) > _LONGEST_TOKEN:
        raise Refused("unreadable_answer", "a token is too long")
    expires = int(time.time() + seconds) if 0 < seconds < 1e9 else 0
    return Answer(tokens.id_token, tokens.access_token, tokens.refresh_token, expires)


def _away() -> ProviderAway:
    return ProviderAway("The identity provider cannot be asked at the moment. Try again shortly.")
