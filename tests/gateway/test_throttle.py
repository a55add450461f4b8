"""Guessing: bad credentials are counted by address, past the limit a new one waits, a known one does not."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from gateway.errors import TooManyFailures
from gateway.identity import throttle
from gateway.identity.records import Key
from gateway.identity.throttle import Throttle
from gateway.scope import RequestScope
from gateway.store.directory import Directory
from tests.gateway.conftest import AUTH, RunningDoor, StartDoor, ask, error_of
from tests.gateway.test_api_keys import bearer, made

FROM_ELSEWHERE = {"allowed_ips": ("10.0.0.0/8",)}
WRONG = "sk-skh-nobody-0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def request_with(credential: str, client: str = "192.0.2.1", header: bytes = b"authorization") -> RequestScope:
    async def never(*_: Any) -> Any:
        raise AssertionError("nothing is read or sent here")

    headers = {header: credential.encode()}
    return RequestScope("0" * 32, "GET", "/", headers, 1, 0, never, never, 0.0, client=client)


def is_refused(throttle: Throttle, request: RequestScope) -> int:
    """Seconds to wait; 0 if it may go on."""
    try:
        throttle.check(request)
    except TooManyFailures as error:
        return error.retry_after or -1
    return 0


def test_an_address_is_refused_from_the_limit_on_until_its_minute_is_over(clock: Clock) -> None:
    slow = Throttle(3, clock)
    for number in range(3):
        assert not is_refused(slow, request_with("new"))
        slow.note_bad(request_with(f"bad-{number}"))
        clock.now += 10
    assert is_refused(slow, request_with("new")) == 31
    assert not is_refused(slow, request_with("new", client="192.0.2.2"))
    clock.now += 29.9
    assert is_refused(slow, request_with("new")) == 1
    clock.now += 0.2
    assert not is_refused(slow, request_with("new"))
    slow.note_bad(request_with("bad"))
    assert not is_refused(slow, request_with("new"))


def test_a_credential_that_is_shown_again_and_again_counts_against_itself(clock: Clock) -> None:
    slow = Throttle(3, clock)
    for _ in range(3):
        assert not is_refused(slow, request_with("stale"))
        slow.note_bad(request_with("stale"))
    assert is_refused(slow, request_with("stale")) == 61
    assert not is_refused(slow, request_with("new"))
    clock.now += 60
    assert not is_refused(slow, request_with("stale"))


@pytest.mark.parametrize(
    ("header", "credential", "refused"),
    [
        (b"authorization", "Bearer sk-skh-b-0123456789abcdef", True),
        (b"authorization", "bearer  sk-skh-b-0123456789abcdef", True),
        (b"authorization", "Bearer a.b.c", False),
        (b"cookie", "sekisho=a", False),
    ],
)
def test_whoever_guesses_keys_does_not_keep_people_out(
    clock: Clock, header: bytes, credential: str, refused: bool
) -> None:
    slow = Throttle(1, clock)
    slow.note_bad(request_with("Bearer sk-skh-a-0123456789abcdef"))
    assert bool(is_refused(slow, request_with(credential, header=header))) is refused


def test_what_was_let_in_from_an_address_goes_on_being_let_in_there(clock: Clock) -> None:
    slow = Throttle(1, clock)
    slow.note_good(request_with("good"))
    slow.note_bad(request_with("bad"))
    assert not is_refused(slow, request_with("good"))
    assert is_refused(slow, request_with("goodness"))
    slow.note_bad(request_with("bad", client="192.0.2.2"))
    assert is_refused(slow, request_with("good", client="192.0.2.2"))


def test_what_turns_bad_is_known_no_longer(clock: Clock) -> None:
    slow = Throttle(1, clock)
    slow.note_good(request_with("revoked"))
    slow.note_bad(request_with("revoked"))
    assert is_refused(slow, request_with("revoked"))


def test_what_was_let_in_long_ago_is_known_no_longer(clock: Clock) -> None:
    slow = Throttle(1, clock)
    slow.note_good(request_with("good"))
    clock.now += 3600
    slow.note_bad(request_with("bad"))
    assert is_refused(slow, request_with("good"))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("", "", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("no:address", "no:address", True),
    ],
)
def test_a_network_of_ipv6_is_one_address(clock: Clock, first: str, second: str, same: bool) -> None:
    slow = Throttle(1, clock)
    slow.note_bad(request_with("bad", client=first))
    assert bool(is_refused(slow, request_with("new", client=second))) is same


def test_its_memory_is_bounded_and_the_oldest_goes_first(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "_ADDRESSES", 10)
    monkeypatch.setattr(throttle, "_CREDENTIALS", 10)
    slow = Throttle(1, clock)
    for number in range(50):
        slow.note_good(request_with(f"good-{number}"))
        slow.note_bad(request_with("bad", client=f"10.0.0.{number}"))
    assert len(slow._places) == len(slow._good) == 10
    assert not is_refused(slow, request_with("x", client="10.0.0.0"))
    assert is_refused(slow, request_with("x", client="10.0.0.49"))


async def test_past_the_limit_a_guess_is_a_429_that_asks_redis_nothing(
    start_door: StartDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = await start_door(auth_failures_per_minute=3)
    known, late = await made(door), await made(door)
    assert await status(door, known.key) == 200
    asked = []
    original = Directory.get

    async def get(self: Directory, kind: Any, record_id: str) -> Any:
        asked.append((kind, record_id))
        return await original(self, kind, record_id)

    monkeypatch.setattr(Directory, "get", get)
    assert [await status(door, f"{WRONG}{number}") for number in range(3)] == [401] * 3
    assert (Key, "nobody") in asked
    asked.clear()
    async with door.post(ask(), headers=bearer(WRONG)) as response:
        error = await error_of(response, 429, "too_many_failures")
        assert error["type"] == "rate_limit_error"
        assert 1 <= int(response.headers["retry-after"]) <= 61
    assert await status(door, late.key) == 429
    assert asked == []
    assert await status(door, known.key) == 200
    assert await status(door, AUTH["authorization"].removeprefix("Bearer ")) == 429


async def test_a_program_with_a_stale_key_locks_out_itself_alone(start_door: StartDoor) -> None:
    door = await start_door(auth_failures_per_minute=2)
    assert [await status(door, WRONG) for _ in range(4)] == [401, 401, 429, 429]
    assert await status(door, (await made(door)).key) == 200


async def test_who_shows_nothing_or_what_was_good_once_is_not_guessing(start_door: StartDoor) -> None:
    door = await start_door(auth_failures_per_minute=1)
    expired, elsewhere, new = [await made(door, **limits) for limits in ({"expires": 1}, FROM_ELSEWHERE, {})]
    for _ in range(3):
        assert await status(door, expired.key) == 401
        assert await status(door, elsewhere.key) == 403
        async with aiohttp.ClientSession() as nobody, nobody.get(f"{door.url}/v1/models") as response:
            await error_of(response, 401, "missing_api_key")
    assert await status(door, new.key) == 200


async def test_refusals_are_counted_by_reason(start_door: StartDoor) -> None:
    door = await start_door(auth_failures_per_minute=2)
    await status(door, (await made(door, expires=1)).key)
    await status(door, (await made(door, **FROM_ELSEWHERE)).key)
    assert await status(door, AUTH["authorization"].removeprefix("Bearer ")) == 200
    for _ in range(2):
        await status(door, WRONG)
    await status(door, WRONG)
    await status(door, "sk-skh-\xff")
    async with door.client.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    counted = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines if "auth_failures_total{" in line}
    reasons = {"expired": "1.0", "address": "1.0", "unknown_key": "2.0", "throttled": "1.0", "malformed": "1.0"}
    happened = {name: count for name, count in counted.items() if count != "0.0"}
    assert happened == {f'sekisho_auth_failures_total{{reason="{name}"}}': count for name, count in reasons.items()}


async def status(door: RunningDoor, key: str) -> int:
    async with door.post(ask(), headers=bearer(key)) as response:
        await response.read()
        return int(response.status)
