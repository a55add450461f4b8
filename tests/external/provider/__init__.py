"""A certified OpenID provider on loopback, each test with one of its own: keys, clock, people, faults. Needs Node.js.

`npm ci` puts what it needs into the ignored folder node_modules beside this file, once.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.external.packages import npm_packages

FOLDER = Path(__file__).parent
CLIENT_ID = "sekisho"
CLIENT_SECRET = "a-secret-of-the-tests-alone"


@dataclass
class RealProvider:
    """`issuer` is its URL. Nobody is known to it until `people` is called, and only the client that `make` made."""

    control: str
    id: str
    issuer: str

    async def command(self, name: str, **body: Any) -> Any:
        return await _command(f"{self.control}/{self.id}/{name}", body)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """It as one of the gateway's issuers."""
        return {"issuer": self.issuer, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET} | changes

    async def people(self, **accounts: dict[str, Any]) -> None:
        """Logins, which are their subjects too, and their further claims: name, email, groups, realm_access ..."""
        await self.command("accounts", **accounts)

    async def client(self, **metadata: Any) -> None:
        """Register a client, or register it anew, as for a gateway whose port is known only now."""
        defaults = {
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "grant_types": ["authorization_code", "refresh_token", "client_credentials"],
            "redirect_uris": ["http://127.0.0.1:8080/auth/callback"],
        }
        await self.command("client", **defaults | metadata)

    async def gateway_at(self, url: str) -> None:
        """Register the gateway's own client with the addresses it has at `url`."""
        await self.client(
            redirect_uris=[f"{url}/auth/callback"],
            post_logout_redirect_uris=[f"{url}/"],
            backchannel_logout_uri=f"{url}/auth/backchannel-logout",
            backchannel_logout_session_required=True,
        )

    async def access_token(self, login: str, audience: str = CLIENT_ID, client: str = CLIENT_ID) -> str:
        token: str = await self.command("access_token", login=login, audience=audience, client=client)
        return token

    async def id_token(self, login: str, nonce: str | None = None, client: str = CLIENT_ID) -> str:
        body = {"login": login, "client": client} | ({} if nonce is None else {"nonce": nonce})
        token: str = await self.command("id_token", **body)
        return token

    async def mint(self, claims: dict[str, Any], **options: Any) -> str:
        """Whatever claims, signed by it. Options: header, alg (RS256 or ES256), foreign: with no key of its."""
        token: str = await self.command("mint", claims=claims, **options)
        return token

    async def rotate(self, *, keep: bool = False) -> None:
        """New keys; the old ones go, or stay published beside them."""
        await self.command("rotate", keep=keep)

    async def keys(self) -> list[dict[str, Any]]:
        keys: list[dict[str, Any]] = await self.command("keys")
        return keys

    async def skew(self, seconds: float) -> None:
        """Let its clock go wrong: ahead, or behind with a negative number."""
        await self.command("skew", seconds=seconds)

    async def faults(self, **by_path: dict[str, Any]) -> None:
        """What happens to requests, in place of earlier faults. Names: paths, `/` in front left out and `_` for `/`.

        Each with status, body (or size), headers, delay in seconds, times (after which it is well again).
        """
        spelled = {"well_known": "/.well-known/openid-configuration"}
        await self.command("faults", **{spelled.get(name, f"/{name}"): fault for name, fault in by_path.items()})

    async def hits(self, path: str) -> int:
        """How often this path was asked for."""
        hits: dict[str, int] = await self.command("hits")
        return hits.get(path, 0)

    async def log_out(self, login: str) -> list[dict[str, str]]:
        """End a person's sessions there, each client told by its back channel: clientId and sid of each."""
        told: list[dict[str, str]] = await self.command("log_out", login=login)
        return told

    async def stop(self) -> None:
        """Its port is closed; it forgets nothing."""
        await self.command("stop")

    async def start(self) -> None:
        await self.command("start")


MakeProvider = Callable[..., Awaitable[RealProvider]]


@pytest.fixture(scope="session")
def provider_control() -> Iterator[str]:
    """The address at which providers are made."""
    npm_packages(FOLDER, "the real OpenID provider")
    process = subprocess.Popen(
        ["node", str(FOLDER / "server.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    port = process.stdout.readline().strip()
    assert port, "the provider did not start; what it said stands above"
    yield f"http://127.0.0.1:{port}"
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


@asynccontextmanager
async def providers(control: str) -> AsyncIterator[MakeProvider]:
    """Makes providers; options: accessTokenSeconds, idTokenSeconds, rotateRefreshTokens, conformIdTokenClaims."""
    made: list[RealProvider] = []

    async def make(**options: Any) -> RealProvider:
        answer = await _command(f"{control}/make", options)
        made.append(RealProvider(control, answer["id"], answer["issuer"]))
        await made[-1].client()
        return made[-1]

    yield make
    for one in made:
        await one.command("remove")


@pytest.fixture
async def make_provider(provider_control: str) -> AsyncIterator[MakeProvider]:
    async with providers(provider_control) as make:
        yield make


@pytest.fixture
async def provider(make_provider: MakeProvider) -> RealProvider:
    return await make_provider()


async def _command(url: str, body: dict[str, Any]) -> Any:
    async with aiohttp.ClientSession() as client, client.post(url, json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json(content_type=None)
