#!/usr/bin/env python3
"""What it costs to know who is asking: from the head of a request to its principal, route and rights checked.

    .venv/bin/python deploy/bench/identify.py

One process, one core, a real Valkey on a Unix socket: what the door's memory of less than a second asks it is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from msgspec.structs import replace
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from machine import describe  # noqa: E402

from backends.fake import FakeBackend  # noqa: E402
from gateway import routes  # noqa: E402
from gateway.api.door import Door  # noqa: E402
from gateway.app import App  # noqa: E402
from gateway.cli.parts import valkey_binary  # noqa: E402
from gateway.errors import DoorError  # noqa: E402
from gateway.identity import access  # noqa: E402
from gateway.identity.records import Key, ServiceAccount, user_id  # noqa: E402
from gateway.identity.sessions import Arrival, Tokens  # noqa: E402
from gateway.scope import RequestScope  # noqa: E402
from gateway.settings import load  # noqa: E402
from gateway.store.directory import Actor  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
KEY = "sk-skh-bench-0123456789abcdef"
PAGE_KEY = "sk-skh-page-0123456789abcdef"
SIGNING = {
    "RS256": RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, auto_kid=True),
    "ES256": ECKey.generate_key("P-256", {"alg": "ES256", "use": "sig"}, auto_kid=True),
}
SECRET = "a-secret-that-only-open-webui-and-the-door-know"
Headers = dict[bytes, bytes]


class Kind(NamedTuple):
    name: str
    headers: Headers
    let_in: bool = True
    remembered: bool = True  # otherwise Redis is asked each time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50_000, help="of each kind")
    arguments = parser.parse_args()
    out(describe(), f"\n\n{'':46}{'p50 us':>9}{'p99 us':>9}{'mean us':>9}")
    with tempfile.TemporaryDirectory() as folder, valkey(Path(folder)) as url:
        uvloop.run(measure(arguments.requests, url, Path(folder)))
    return 0


async def measure(count: int, redis_url: str, folder: Path) -> None:
    async with provider() as issuer, door(redis_url, folder, issuer) as opened:
        for kind in kinds(issuer):
            show(kind.name, await times_of(opened, kind, count if kind.remembered else count // 10))
        browser = Kind("a browser's session", await session(opened, issuer))
        show(browser.name, await times_of(opened, browser, count // 10))


def kinds(issuer: str) -> list[Kind]:
    key = {b"authorization": f"Bearer {KEY}".encode()}
    page = {b"authorization": f"Bearer {PAGE_KEY}".encode(), b"x-openwebui-user-jwt": forwarded()}
    return [
        Kind("API key", key),
        Kind("API key that is not remembered", key, remembered=False),
        Kind("API key, on behalf of somebody", key | {b"x-on-behalf-of": b"hana"}),
        Kind("API key, a user forwarded by Open WebUI", page),
        Kind("a provider's token, RS256", {b"authorization": b"Bearer " + token(issuer, "RS256")}),
        Kind("a provider's token, ES256", {b"authorization": b"Bearer " + token(issuer, "ES256")}),
        Kind("refused: no such key, past the limit", {b"authorization": b"Bearer sk-skh-no-0123456789abcdef"}, False),
    ]


def forwarded() -> bytes:
    now = int(time.time())
    claims = {"sub": "3f0c9a52", "email": "hana@example.com", "name": "Hana", "role": "user", "iss": "open-webui"}
    return jwt.encode({"alg": "HS256"}, claims | {"iat": now, "exp": now + 3600}, OctKey.import_key(SECRET)).encode()


def token(issuer: str, algorithm: str) -> bytes:
    now = int(time.time())
    claims = {"iss": issuer, "aud": "bench", "sub": "hana", "azp": "bench", "iat": now, "exp": now + 3600}
    claims |= {"name": "Hana", "email": "hana@example.com", "groups": [f"group-{number}" for number in range(10)]}
    key = SIGNING[algorithm]
    return jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key).encode()


async def session(opened: Door, issuer: str) -> Headers:
    """Of the person whose tokens came before."""
    arrival = Arrival(
        user_id(issuer, "hana"), issuer, "192.0.2.1", "", Tokens(token(issuer, "RS256").decode(), "r" * 64)
    )
    return {b"cookie": b"sekisho=" + (await opened.sessions.begin(arrival))[0].encode()}


async def times_of(opened: Door, kind: Kind, count: int) -> list[float]:
    """Seconds of each, one after the other."""
    times = []
    for number in range(count):
        request = request_with(kind.headers)
        if not kind.remembered:
            opened.lookup.forget_all()
        started = time.perf_counter()
        let_in = await identified(opened, request)
        times.append(time.perf_counter() - started)
        if let_in is not kind.let_in:
            raise RuntimeError(f"{kind.name}: let in is {let_in}")
        if number % 100 == 0:
            await asyncio.sleep(0)  # the door's other tasks get their turn, as between two requests
    return times


async def identified(opened: Door, request: RequestScope) -> bool:
    """As the application does it."""
    route, _ = routes.find(request.method, request.path)
    try:
        request.principal = await opened.pipeline.authenticate(request)
        access.check_route(request.principal, route.endpoint, route.role)
    except DoorError:
        return False
    return True


def request_with(headers: Headers) -> RequestScope:
    async def nothing(*_: Any) -> Any:
        return {}

    return RequestScope(
        "0" * 32, "GET", "/v1/models", headers, len(headers), 0, nothing, nothing, 0.0, client="192.0.2.1"
    )


def show(name: str, times: list[float]) -> None:
    times.sort()
    count = len(times)
    out(f"{name:46}{times[count // 2] * 1e6:9.0f}{times[int(count * 0.99)] * 1e6:9.0f}{sum(times) / count * 1e6:9.0f}")


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    socket = folder / "valkey.sock"
    store = [str(valkey_binary()), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(store, stdout=subprocess.DEVNULL) as process:
        try:
            while not socket.exists():
                time.sleep(0.01)
            yield f"unix://{socket}"
        finally:
            process.terminate()


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Describes itself and publishes its keys; nobody can sign in there."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        public = {"keys": [key.as_dict(private=False) for key in SIGNING.values()]}
        ends = {f"{name}_endpoint": f"{issuer}/{name}" for name in ("authorization", "token")}
        body = json.dumps(public if path == b"/jwks" else {"issuer": issuer, "jwks_uri": f"{issuer}/jwks", **ends})
        writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield issuer
    server.close()


@asynccontextmanager
async def door(redis_url: str, folder: Path, issuer: str) -> AsyncIterator[Door]:
    known = [{"issuer": issuer, "client_id": "bench"}]
    settings = load(
        redis_url=redis_url,
        data_dir=folder / "data",
        open_webui_secret=SECRET,
        issuers=known,
        public_url="http://127.0.0.1:8080",
    )
    app = App(settings, {"native": FakeBackend()})
    await app.open()
    opened = app.door
    if opened is None:
        raise RuntimeError("the door did not open")
    await put_keys(opened)
    yield opened
    await app.aclose()


async def put_keys(opened: Door) -> None:
    actor = Actor("bench", "bench", "cli", "")
    await opened.directory.create(actor, ServiceAccount(id="bench", name="bench"))
    draft = Key(id="", digest="", owner="service_account:bench")
    await opened.key_ring.put(actor, KEY, replace(draft, on_behalf_of=True))
    await opened.key_ring.put(actor, PAGE_KEY, replace(draft, forwards_users=True))


if __name__ == "__main__":
    sys.exit(main())
