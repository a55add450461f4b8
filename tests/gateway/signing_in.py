"""Doors that people sign in at, and a browser without a screen: it keeps cookies and follows where it is sent."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from yarl import URL

from tests.external.provider import RealProvider

if TYPE_CHECKING:
    from tests.gateway.conftest import RunningDoor, StartDoor

NAVIGATE = {"sec-fetch-mode": "navigate", "accept": "text/html"}
BACKGROUND = {"sec-fetch-mode": "cors", "accept": "application/json"}


class Page(NamedTuple):
    status: int
    text: str
    headers: Any
    url: str

    @property
    def location(self) -> str:
        found: str = self.headers.get("location", "")
        return found


class Browser:
    """At one door. `client` is an aiohttp session without any key."""

    def __init__(self, door: str, client: aiohttp.ClientSession) -> None:
        self.door = door
        self.client = client

    async def get(self, path: str, **headers: str) -> Page:
        """One step: a redirect is shown, not followed."""
        return await self._ask("GET", path, headers=NAVIGATE | headers)

    async def post(self, path: str, origin: str | None = "", **options: Any) -> Page:
        """As a form of the door's own page does; or of another origin's, or of none."""
        own = {} if origin is None else {"origin": origin or self.door}
        return await self._ask("POST", path, headers=NAVIGATE | own, **options)

    async def background(self, path: str, method: str = "GET", **options: Any) -> Page:
        return await self._ask(method, path, headers=BACKGROUND | {"origin": self.door}, **options)

    async def to_the_provider(self, path: str = "/auth/sign-in") -> str:
        """Begin; the address at the provider."""
        page = await self.get(path)
        assert page.status == 303, page.text
        return page.location

    async def at_the_provider(self, address: str, login: str) -> str:
        """Say who you are; the address to come back to."""
        page = await self.get(address)
        while not page.location.startswith(f"{self.door}/"):
            if page.status == 200:
                assert 'name="login"' in page.text
                page = await self._ask("POST", page.url, data={"login": login, "do": "sign-in"})
            else:
                assert 300 <= page.status < 400, page.text
                page = await self.get(str(URL(page.url).join(URL(page.location, encoded=True))))
        return page.location

    async def sign_in(self, login: str, path: str = "/auth/sign-in") -> Page:
        back = await self.at_the_provider(await self.to_the_provider(path), login)
        return await self.get(back)

    def cookie(self, name: str = "sekisho") -> str | None:
        morsel = self.client.cookie_jar.filter_cookies(URL(self.door)).get(name)
        return morsel.value if morsel else None

    def set_cookie(self, value: str, name: str = "sekisho") -> None:
        self.client.cookie_jar.update_cookies({name: value}, URL(self.door))

    async def _ask(self, method: str, path: str, **options: Any) -> Page:
        url = URL(self.door + path if path.startswith("/") else path, encoded=True)
        async with self.client.request(method, url, allow_redirects=False, **options) as answer:
            return Page(answer.status, await answer.text(), answer.headers, str(answer.url))


NewBrowser = Callable[["RunningDoor"], Browser]
SignInDoor = Callable[..., Awaitable["RunningDoor"]]


@pytest.fixture
async def new_browser() -> AsyncIterator[NewBrowser]:
    async with AsyncExitStack() as stack:
        made: list[aiohttp.ClientSession] = []

        def make(door: RunningDoor) -> Browser:
            made.append(aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)))
            stack.push_async_callback(made[-1].close)
            return Browser(door.url, made[-1])

        yield make


@pytest.fixture
def sign_in_door(start_door: StartDoor) -> SignInDoor:
    """Starts doors whose people come from these providers, each provider told where the door is."""

    async def start(*providers: RealProvider, issuer: dict[str, Any] | None = None, **settings: Any) -> RunningDoor:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        for provider in providers:
            await provider.gateway_at(url)
        issuers = [provider.settings(**(issuer or {})) for provider in providers]
        return await start_door(**{"port": port, "public_url": url, "issuers": issuers} | settings)

    return start


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def text_of(page: Page) -> str:
    """Without tags, as a person reads it."""
    return re.sub(r"<[^>]+>", " ", page.text)
