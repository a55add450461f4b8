"""HTTP towards identity providers: bounded in time and size, no redirects; the machine's certificates and proxy."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

LARGEST_ANSWER = 1024 * 1024
_SECONDS = 10.0  # for a whole answer
_TIMEOUT = httpx.Timeout(5.0)  # for each step of it

# What a request can end in, beside an answer. The transport lets some of aiohttp's own errors through.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, TimeoutError, ValueError)


def transport() -> AiohttpTransport:
    """Never httpx's own, which leaks connections when a request is cancelled."""
    # The session has its own; reading the authorities takes a while that a door without providers need not wait.
    unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return AiohttpTransport(verify=unused, client=_session)


def _session() -> aiohttp.ClientSession:
    # SSL_CERT_FILE and the system's store: companies have authorities of their own.
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(), limit=20)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport(), timeout=_TIMEOUT, follow_redirects=False)


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
