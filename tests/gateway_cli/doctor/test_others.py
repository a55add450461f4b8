"""`sekisho doctor` on what else a gateway speaks to: providers and engines, each fault with a server that has it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gateway.cli.doctor import engines, provider
from gateway.cli.findings import Finding
from gateway.settings import load


class Server:
    """Answers paths with JSON; its clock may be wrong."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.skew = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = outer.answers.get(self.path)
                body = json.dumps(answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(time.time() + outer.skew, usegmt=True)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def describes(self, **changes: Any) -> None:
        urls = {name: f"{self.url}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        self.answers["/.well-known/openid-configuration"] = {"issuer": self.url, **urls, **changes}
        self.answers["/jwks_uri"] = {"keys": [{"kty": "RSA", "kid": "1"}]}


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def of_provider(server: Server) -> list[Finding]:
    return list(provider.examine(load(issuers=[{"issuer": server.url, "client_id": "x"}])))


def test_a_provider_that_is_well_is_called_so(server: Server) -> None:
    server.describes()
    assert [finding.verdict for finding in of_provider(server)] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("skew", "verdict", "told"), [(300.5, "fail", "ahead of"), (-300.5, "fail", "behind"), (45.5, "warn", "ahead of")]
)
def test_a_skewed_clock_is_told(skew: float, verdict: str, told: str, server: Server) -> None:
    server.describes()
    server.skew = skew
    found = of_provider(server)[-1]
    assert (found.verdict, told in found.found, "NTP" in found.remedy) == (verdict, True, True)


def wrong_issuer(server: Server) -> None:
    server.describes(issuer="https://another.example")


def no_keys(server: Server) -> None:
    server.describes()
    server.answers["/jwks_uri"] = {"keys": []}


def no_key_document(server: Server) -> None:
    server.describes(jwks_uri=f"{server.url}/gone")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda server: None, "answered 404"),
        (wrong_issuer, "says that its name is 'https://another.example'"),
        (no_keys, "publishes none"),
        (no_key_document, "answered 404"),
    ],
    ids=["404", "wrong issuer", "no keys", "no key document"],
)
def test_a_provider_that_nobody_could_sign_in_with_is_told(
    fault: Callable[[Server], None], told: str, server: Server
) -> None:
    fault(server)
    (found,) = of_provider(server)
    assert (found.verdict, told in found.found) == ("fail", True), found


def test_a_provider_that_is_not_there_is_told(server: Server) -> None:
    server.close()
    (found,) = of_provider(server)
    assert (found.verdict, "HTTPS_PROXY" in found.remedy) == ("fail", True)


def test_engines_are_asked_what_they_serve(server: Server) -> None:
    server.answers["/v1/models"] = {"object": "list", "data": [{"id": "qwen", "object": "model"}]}
    one = {"kind": "vllm", "url": server.url}
    named = [
        {"name": "well", **one},
        {"name": "empty", **one, "models": ["another"]},
        {"name": "gone", "kind": "vllm", "url": "http://127.0.0.1:1"},
        {"name": "keyless", **one, "api_key_env": "NOT_SET"},
    ]
    found = {finding.subject: finding for finding in engines.examine(load(backends=named))}
    assert {name: finding.verdict for name, finding in found.items()} == {
        "engine well": "ok",
        "engine empty": "fail",
        "engine gone": "fail",
        "engine keyless": "warn",
    }
    assert "qwen" in found["engine well"].found
    assert "another" in found["engine empty"].found


def test_no_engine_is_looked_for_where_none_is_named() -> None:
    assert list(engines.examine(load())) == []
