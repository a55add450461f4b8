"""Whatever stands in the headers that say who is asking: an answer in the one shape, never a fault of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backends.fake import FakeBackend
from gateway.app import App
from gateway.identity.records import Key, ServiceAccount
from gateway.settings import load
from gateway.store.directory import Actor
from tests.gateway.conftest import ADMIN_KEY
from tests.gateway.test_open_webui import SECRET, signed

GOOD = f"Bearer {ADMIN_KEY}".encode()
FORWARDING_KEY = "sk-skh-page-0123456789abcdef"
REFUSALS = {400, 401, 403, 429}
NAMES = (b"authorization", b"x-on-behalf-of", b"x-openwebui-user-jwt", b"cookie", b"x-forwarded-for", b"origin")

text = st.text(max_size=60).map(lambda value: value.encode("utf-8", "surrogatepass"))
piece = st.one_of(
    st.binary(max_size=60),
    text,
    st.sampled_from([b"Bearer ", b"bearer", b"Basic ", b"sk-skh-", b"sk-skh-page-", GOOD, b"\0", b"|", b"a.b.c", b"="]),
    st.sampled_from([FORWARDING_KEY.encode(), signed().encode(), b"eyJhbGciOiJub25lIn0.e30.", b"sekisho=", b"usr_"]),
)
value = st.lists(piece, max_size=4).map(b"".join)
credential = st.one_of(value, value.map(b"Bearer ".__add__), st.just(b"Bearer " + FORWARDING_KEY.encode()))
headers = st.lists(
    st.one_of(st.tuples(st.just(b"authorization"), credential), st.tuples(st.sampled_from(NAMES), value)), max_size=5
)


class Bare:
    """The door without a server before it, which would refuse much of this by itself."""

    def __init__(self, app: App, runner: asyncio.Runner) -> None:
        self._app = app
        self._runner = runner

    def ask(self, *sent: tuple[bytes, bytes], path: str = "/v1/models") -> tuple[int, bytes]:
        return self._runner.run(self._ask(list(sent), path))

    async def _ask(self, sent: list[tuple[bytes, bytes]], path: str) -> tuple[int, bytes]:
        answer: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            answer.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": sent}
        await self._app(scope | {"client": ("127.0.0.1", 1)}, receive, send)
        return answer[0]["status"], b"".join(message.get("body", b"") for message in answer[1:])


@pytest.fixture
def bare(redis_url: str, tmp_path: Path) -> Iterator[Bare]:
    values = {"redis_url": redis_url, "data_dir": tmp_path, "open_webui_secret": SECRET}
    values |= {"trusted_proxies": ["127.0.0.1"]}
    app = App(load(**values, auth_failures_per_minute=1_000_000_000), {"native": FakeBackend()})
    with asyncio.Runner() as runner:
        runner.run(app.open())
        runner.run(_put_keys(app))
        yield Bare(app, runner)
        runner.run(app.aclose())


async def _put_keys(app: App) -> None:
    assert app.door is not None
    actor = Actor("tests", "tests", "cli", "here")
    await app.door.directory.create(actor, ServiceAccount(id="page", name="page"))
    for key, limits in ((ADMIN_KEY, {}), (FORWARDING_KEY, {"forwards_users": True, "on_behalf_of": True})):
        await app.door.key_ring.put(actor, key, Key(id="", digest="", owner="service_account:page", **limits))


def assert_in_shape(status: int, body: bytes, sent: Any) -> None:
    assert status in REFUSALS | {200}, (status, sent)
    if status != 200:
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"].isprintable()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=headers)
@example(sent=[(b"authorization", GOOD), (b"x-on-behalf-of", b"a")])
@example(sent=[(b"authorization", b"Bearer " + FORWARDING_KEY.encode()), (b"x-openwebui-user-jwt", b"\xff.\xff.\xff")])
def test_whatever_is_sent_is_answered_in_shape(bare: Bare, sent: list[tuple[bytes, bytes]]) -> None:
    assert_in_shape(*bare.ask(*sent), sent)


CREDENTIALS = {
    "unicode digits": "Bearer sk-skh-admin-٠١٢٣٤٥٦٧٨٩abcdef".encode(),
    "full width": "Ｂｅａｒｅｒ ".encode() + ADMIN_KEY.encode(),
    "an emoji": "Bearer 🔑".encode(),
    "latin-1": "Bearer schlüssel".encode("latin-1"),
    "a nul": GOOD + b"\0",
    "a line feed": GOOD + b"\nx: y",
    "a tab": b"Bearer\t" + ADMIN_KEY.encode(),
    "two tokens": GOOD + b" " + ADMIN_KEY.encode(),
    "two in one, by comma": GOOD + b", " + GOOD,
    "a megabyte": b"Bearer " + b"a" * 1_000_000,
    "a long one that fits": b"Bearer " + b"a" * 16_384,
    "right id, wrong secret": b"Bearer sk-skh-admin-0123456789abcdeX",
    "right key, more behind": GOOD + b"a",
    "right key, less": GOOD[:-1],
    "another case": GOOD.upper(),
    "dots": b"Bearer ..",
    "a thousand dots": b"Bearer " + b"." * 1000,
    "only padding": b"Bearer ====",
}


@pytest.mark.parametrize("credential", CREDENTIALS.values(), ids=CREDENTIALS)
def test_what_is_nearly_a_key_lets_nobody_in(bare: Bare, credential: bytes) -> None:
    status, body = bare.ask((b"authorization", credential))
    assert status in (401, 431)
    error = json.loads(body)["error"]
    assert "0123456789" not in error["message"]
    assert error["type"] == "invalid_request_error"


def test_the_key_itself_does(bare: Bare) -> None:
    for credential in (GOOD, b"bearer  " + ADMIN_KEY.encode() + b" "):
        assert bare.ask((b"authorization", credential))[0] == 200


def test_of_two_credentials_none_is_taken_not_even_a_good_one(bare: Bare) -> None:
    for second in (GOOD, b"", b"Bearer other"):
        for pair in ((GOOD, second), (second, GOOD)):
            status, body = bare.ask(*((b"authorization", credential) for credential in pair))
            assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_authorization")
