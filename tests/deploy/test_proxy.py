"""The shipped nginx before two gateways and the shipped Valkey, in earnest: TLS, streams, bounds, trust, failover."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
from aiohttp import web

from tests.deploy.standing import LARGEST_BODY, NAME, Nginx, Standing, free_port
from tests.gateway.conftest import CHAT
from tests.system.counting_engine import MODEL

pytestmark = [pytest.mark.slow, pytest.mark.system]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with Standing(tmp_path_factory.mktemp("standing")) as standing:
        yield standing


def question(tokens: int, gap: float, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": f"hello {tokens} {gap}"}], **more}


@asynccontextmanager
async def serving(answer: Callable[[web.Request], web.Response], port: int) -> AsyncIterator[None]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def runs(standing: Standing, requests: int) -> None:
    """Returns once the engine is at so many."""
    for _ in range(1200):
        if await standing.running() == requests:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the engine was never at {requests} requests: {standing.logs()}")


async def said(response: Any) -> AsyncIterator[bytes]:
    async for line in response.content:
        if line.strip():
            yield line


async def test_a_token_reaches_its_reader_before_the_next_is_made(standing: Standing) -> None:
    # So few that they fill no buffer, so far apart that whoever is late still is before the last.
    async with standing.client() as client, client.post(CHAT, json=question(6, 3, stream=True)) as response:
        assert response.status == 200
        assert b"word" in await anext(said(response))
        assert await standing.running() == 1
        response.close()
    await runs(standing, 0)  # a reader who leaves ends the engine's work


async def test_silence_is_filled_and_not_cut(standing: Standing) -> None:
    async with standing.client() as client, client.post(CHAT, json=question(3, 2, stream=True)) as response:
        lines = [line async for line in said(response)]
    assert sum(line.startswith(b":") for line in lines) >= 2  # a heartbeat each half second
    assert lines[-1] == b"data: [DONE]\n"


def test_nginx_waits_longer_than_any_answer_takes(standing: Standing) -> None:
    text = (standing.compose.parent / "nginx/templates/sekisho.conf.template").read_text("utf-8")
    read = re.search(r"proxy_read_timeout (\d+)s;", text)
    assert read is not None
    assert int(read[1]) > 1800  # total_timeout


async def test_the_chats_events_come_as_they_are_made(standing: Standing) -> None:
    async with standing.client(standing.person_key) as client:
        async with client.post("/chat/v1/conversations", json={}) as response:
            conversation = (await response.json())["id"]
        body = {"model": MODEL, "parent": None, "content": "hello 6 3"}
        async with client.post(f"/chat/v1/conversations/{conversation}/answers", json=body) as response:
            assert response.status == 200
            events = (json.loads(line[6:]) async for line in said(response) if line.startswith(b"data: "))
            started = await anext(events)
            while "text" not in await anext(events):
                pass
            assert await standing.running() == 1
            async with client.post(f"/chat/v1/answers/{started['message']['id']}/stop") as stopped:
                assert stopped.status < 300
            assert [event async for event in events][-1]["state"] == "stopped"


async def test_a_body_that_is_too_large_is_refused_in_the_words_of_the_gateway(standing: Standing) -> None:
    async with standing.client() as client, client.post(CHAT, data=io.BytesIO(b"x" * (LARGEST_BODY + 1))) as response:
        refused = await response.json()
        assert (response.status, refused["error"]["code"]) == (413, "body_too_large")
        assert str(LARGEST_BODY) in refused["error"]["message"]
        assert "x-request-id" in response.headers


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        (f"content-length: {65 * 1024 * 1024}", 413, "body_too_large"),
        (f"x-long: {'x' * 20_000}", 431, "headers_too_large"),
        ("content-length: many", 400, "bad_request"),
    ],
    ids=["body", "headers", "nonsense"],
)
async def test_what_nginx_refuses_itself_has_the_form_of_the_api(
    standing: Standing, header: str, status: int, code: str
) -> None:
    async with standing.connection() as (reader, writer):
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: {NAME}\r\n{header}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert f" {status} " in head.splitlines()[0]
        assert "content-type: application/json" in head.lower()
        told = json.loads(await reader.readuntil(b"}}"))
    assert told["error"]["code"] == code


async def test_whoever_says_to_come_from_elsewhere_is_not_believed(standing: Standing) -> None:
    spoofed = {"x-forwarded-for": "203.0.113.7", "forwarded": "for=203.0.113.7", "x-real-ip": "203.0.113.7"}
    async with standing.client() as client:
        async with client.post("/admin/v1/service-accounts", json={"name": "spoof"}, headers=spoofed) as response:
            assert response.status == 201, await response.text()
        async with client.get("/admin/v1/audit") as response:
            entries = (await response.json())["data"]
    (entry,) = [entry for entry in entries if (entry["after"] or {}).get("name") == "spoof"]
    assert entry["actor"]["address"] == "127.0.0.1"


async def test_headers_that_say_who_somebody_is_end_at_the_proxy(standing: Standing, tmp_path: Path) -> None:
    got: list[Mapping[str, str]] = []

    def record(request: web.Request) -> web.Response:
        got.append(request.headers)
        return web.json_response({})

    upstream, port = free_port(), free_port()
    there = f"127.0.0.1:{upstream}"
    variables = standing.nginx_variables(GATEWAY_1=there, GATEWAY_2=there, HTTPS_PORT=str(port))
    kept = {"x-on-behalf-of": "hana", "traceparent": "00-1-1-01", "x-data-class": "public"}
    lies = (
        "x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username",
        "x-forwarded-access-token", "x-auth-request-user", "x-auth-request-email", "x-auth-request-groups",
        "x-remote-user", "remote-user", "x-client-cert", "forwarded", "x_forwarded_for",
    )  # fmt: skip
    with Nginx(tmp_path, standing.compose, variables):
        async with serving(record, upstream), standing.client() as client:
            headers = kept | dict.fromkeys((*lies, "x-forwarded-for", "x-real-ip", "x-forwarded-host"), "lie")
            async with client.get(
                f"https://{NAME}:{port}/", headers=headers | {"x-forwarded-proto": "http"}
            ) as response:
                assert response.status == 200
    (headers,) = got
    assert {name: headers.get(name) for name in kept} == kept
    assert [name for name in lies if name in headers] == []
    told = {name: headers[name] for name in ("x-forwarded-for", "x-real-ip", "x-forwarded-proto", "x-forwarded-host")}
    assert told == dict(zip(told, ("127.0.0.1", "127.0.0.1", "https", NAME), strict=True))


async def test_browsers_get_http_2_over_tls_and_other_names_nothing(standing: Standing) -> None:
    async with standing.connection("h2") as (_, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    with socket.create_connection(("127.0.0.1", standing.port)) as bare, pytest.raises((ssl.SSLError, ConnectionError)):
        standing.trusted().wrap_socket(bare, server_hostname=f"elsewhere.{NAME}")
    async with standing.client("") as client, client.get("/") as response:
        assert response.status == 200
        assert "Trial" in await response.text()
        assert response.headers["strict-transport-security"] == "max-age=31536000"


async def test_the_cookie_of_the_sign_in_is_for_tls_and_for_this_host_alone(standing: Standing) -> None:
    issuer = standing.issuer
    described = {"issuer": issuer, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
    described |= {name: f"{issuer}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    port = urlsplit(issuer).port or 0
    async with serving(lambda _: web.json_response(described), port), standing.client("") as client:
        for _ in range(300):  # it was away when the gateway started, which asks again after some seconds
            async with client.get("/auth/sign-in", allow_redirects=False) as response:
                if response.status == 303:
                    break
                assert response.status == 503, await response.text()
            await asyncio.sleep(0.2)
    (cookie,) = response.headers.getall("set-cookie")
    assert cookie.startswith("__Host-")
    assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
    asked = parse_qs(urlsplit(response.headers["location"]).query)
    assert asked["redirect_uri"] == [f"{standing.url}/auth/callback"]
    assert asked["code_challenge_method"] == ["S256"]


def test_valkey_forgets_nothing_and_obeys_the_gateways_alone(standing: Standing) -> None:
    assert standing.redis.info("persistence")["aof_enabled"] == 1
    assert standing.redis.info("memory")["maxmemory_policy"] == "noeviction"
    assert standing.nobody.ping()
    with pytest.raises(redis.exceptions.NoPermissionError):
        standing.nobody.get("anything")
    with pytest.raises(redis.exceptions.NoPermissionError):
        standing.redis.config_set("appendonly", "no")
    with pytest.raises(redis.exceptions.NoPermissionError):
        standing.redis.shutdown(nosave=True)


def test_nginx_finds_nothing_wrong_with_its_configuration(standing: Standing) -> None:
    checked = subprocess.run(standing.nginx.command("-t"), capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stderr


async def test_a_gateway_that_dies_costs_nobody_an_answer_who_asks_after_it(standing: Standing) -> None:
    """The last: no gateway is left behind it."""
    async with standing.client() as client:
        # Connections to both are kept, and one has an answer under way that nobody can give any more.
        await asyncio.gather(*(_asked(client, 1, 0.01) for _ in range(8)))
        under_way = [asyncio.create_task(_asked(client, 2000, 0.05)) for _ in range(4)]
        await runs(standing, 4)
        standing.gateways[0].kill()
        standing.gateways[0].wait()
        statuses = await asyncio.gather(*(_asked(client, 1, 0.01) for _ in range(40)))
        assert statuses == [(200, "")] * 40
        # What it was at is not asked for twice: its clients are told to come again, as are all without any gateway.
        standing.gateways[1].kill()
        assert await asyncio.gather(*under_way) == [(503, "gateway_unavailable")] * 4
        assert await _asked(client, 1, 0) == (503, "gateway_unavailable")


async def _asked(client: Any, tokens: int, gap: float) -> tuple[int, str]:
    async with client.post(CHAT, json=question(tokens, gap)) as response:
        told = await response.json()
        return response.status, told.get("error", {}).get("code", "")
