"""The way out to providers: the company's proxy where there is one, and no state of this machine's user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gateway.identity.oidc import fetching

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


class Listener:
    """Answers every request with {} and keeps their heads."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def listener(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    listener = Listener()
    server = await asyncio.start_server(listener.answer, "127.0.0.1", 0)
    listener.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield listener
    server.close()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    client = fetching.client()
    yield client
    await client.aclose()


async def test_proxy_of_the_environment_is_used_but_not_for_this_machine_and_not_where_excepted(
    listener: Listener, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", listener.url)
    monkeypatch.setenv("NO_PROXY", "inside.invalid")
    assert await fetching.get(http, "http://login.invalid/keys") == b"{}"
    assert listener.heads[0].startswith("GET http://login.invalid/keys HTTP/1.1\r\n")
    with pytest.raises(httpx.HTTPError):
        await fetching.get(http, "http://inside.invalid/keys")
    assert await fetching.get(http, f"{listener.url}/keys") == b"{}"
    assert listener.heads[1].startswith("GET /keys HTTP/1.1\r\n")


async def test_credentials_and_cookies_of_nobody_are_sent_along(
    listener: Listener, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password something\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for _ in range(2):
        await fetching.get(http, listener.url)
    assert "authorization" not in "".join(listener.heads).lower()
    assert "cookie" not in "".join(listener.heads).lower()
