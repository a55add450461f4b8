"""HTTP towards identity providers: bounded in time and size, no redirects; the machine's certificates and proxy."""

from __future__ import annotations

import asyncio
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from gateway.settings import LOOPBACK_HOSTS

LARGEST_ANSWER = 1024 * 1024
_SECONDS = 10.0  # for a whole answer
_TIMEOUT = httpx.Timeout(5.0)  # for each step of it

# What a request can end in, beside an answer. The transport lets some of aiohttp's own errors through.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, TimeoutError, ValueError)


class Transport(httpx.AsyncBaseTransport):
    """Never httpx's own, which leaks connections when a request is cancelled.

    Through the proxy that HTTPS_PROXY and NO_PROXY name, if any: many companies let nothing out otherwise.
    """

    def __init__(self) -> None:
        self._by_proxy: dict[str, AiohttpTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = _proxy_for(request.url)
        if proxy not in self._by_proxy:
            self._by_proxy[proxy] = _transport(proxy)
        return await self._by_proxy[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._by_proxy.values():
            await transport.aclose()


def client() -> httpx.AsyncClient:
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # one client for many people's sign-ins
    return httpx.AsyncClient(transport=Transport(), timeout=_TIMEOUT, follow_redirects=False, cookies=no_cookies)


def _transport(proxy: str) -> AiohttpTransport:
    # SSL_CERT_FILE and the system's store: companies have authorities of their own.
    context = ssl.create_default_context()

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=context, limit=20)
        # Not trust_env: with it a ~/.netrc would take the place of the client's own credentials.
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    return AiohttpTransport(verify=context, client=session, proxy=httpx.Proxy(proxy) if proxy else None)


def _proxy_for(url: httpx.URL) -> str:
    """Empty where there is none."""
    if url.host in LOOPBACK_HOSTS or proxy_bypass(url.host):
        return ""
    return getproxies().get(url.scheme, "")


async def get(http: httpx.AsyncClient, url: str) -> bytes:
    """The body of a 200. Raises one of FAILURES, with words for the log."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with asyncio.timeout(_SECONDS), http.stream("GET", url, headers=headers) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answered {response.status_code}, expected 200")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise ValueError(f"{url} answered more than {LARGEST_ANSWER} bytes")
        return bytes(body)
