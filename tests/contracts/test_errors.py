"""No error of the transport is without a translation, and none of ours without an answer for the user."""

from __future__ import annotations

import aiohttp
import pytest

from backends.errors import BackendError, Broken, Rejected, TimedOut, Unreachable, counterpart, translate
from gateway.errors import DoorError, from_backend


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*(subclasses(child) for child in kind.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(subclasses(aiohttp.ClientError), key=lambda kind: kind.__name__))
def test_every_aiohttp_error_is_translated(kind: type[Exception]) -> None:
    assert counterpart(kind) is not None


def test_timeouts_and_refused_connections_are_told_apart() -> None:
    assert isinstance(translate(TimeoutError()), TimedOut)
    assert isinstance(translate(aiohttp.ConnectionTimeoutError()), Unreachable)
    assert isinstance(translate(aiohttp.ServerTimeoutError()), TimedOut)
    assert isinstance(translate(ConnectionResetError()), Broken)


@pytest.mark.parametrize("kind", sorted(subclasses(BackendError) - {Rejected}, key=lambda kind: kind.__name__))
def test_every_backend_error_becomes_an_answer_without_the_transports_words(kind: type[BackendError]) -> None:
    answer = from_backend(kind("secret path /srv/engine.sock"))
    assert isinstance(answer, DoorError)
    assert answer.status in (502, 503, 504)
    assert b"/srv" not in answer.body()


@pytest.mark.parametrize(
    ("engine", "user"),
    [(400, 400), (401, 502), (403, 502), (404, 502), (413, 400), (422, 400), (429, 429), (500, 502), (503, 503)],
)
def test_the_engines_status_becomes_the_users(engine: int, user: int) -> None:
    assert from_backend(Rejected(engine, b'{"error":{"message":"m"}}')).status == user


@pytest.mark.parametrize(
    ("status", "body"), [(401, b'{"error":"Unauthorized"}'), (403, b""), (404, b"Valid aliases: a")]
)
def test_what_concerns_the_gateway_is_not_told_as_if_it_were_the_users_doing(status: int, body: bytes) -> None:
    message = from_backend(Rejected(status, body)).message
    assert "administrator" in message
    assert "aliases" not in message
