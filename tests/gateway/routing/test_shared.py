"""What one gateway finds, others know; over a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from backends.base import Readiness
from backends.errors import Broken, Rejected, Unreachable
from gateway.routing.health import Health, State
from gateway.routing.shared import Shared
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import eventually, start_valkey


class Gateway:
    """One that has two backends."""

    def __init__(self, url: str, name: str) -> None:
        self.store = Store(url, REDIS_TIMEOUT)
        self.healths = {"a": ready(), "b": ready()}
        self.changed: list[str] = []
        self.shared = Shared(self.store, name, lambda: self.healths, self.changed.append)

    def state(self, backend: str) -> State:
        return self.healths[backend].state(time.monotonic())

    def fail(self, backend: str, *errors: Exception) -> None:
        for index, error in enumerate(errors):
            self.healths[backend].observe_failure(error, str(index), time.monotonic())  # type: ignore[arg-type]

    def succeed(self, backend: str) -> None:
        self.healths[backend].observe_first_token(time.monotonic(), 0.1, 0.1)

    async def aclose(self) -> None:
        await self.shared.aclose()
        await self.store.aclose()


StartGateway = Callable[..., Awaitable[Gateway]]
BROKEN = (Broken(), Broken(), Broken())


def ready() -> Health:
    health = Health()
    health.observe_probe(Readiness.READY, time.monotonic())
    return health


def listeners(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.pubsub_numsub("{sekisho}:health-told")[0][1])


@pytest.fixture
async def start_gateway(redis_url: str) -> AsyncIterator[StartGateway]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str, url: str = redis_url) -> Gateway:
            before = listeners(url)
            gateway = Gateway(url, name)
            gateway.shared.start()
            stack.push_async_callback(gateway.aclose)
            await eventually(lambda: listeners(url) > before)
            return gateway

        yield start


async def test_what_one_gateway_finds_the_other_knows_within_a_second(start_gateway: StartGateway) -> None:
    one, two = await start_gateway("one"), await start_gateway("two")
    one.fail("a", *BROKEN)
    one.fail("b", Rejected(429, retry_after="30"))
    await eventually(lambda: (two.state("a"), two.state("b")) == (State.FAILING, State.RATE_LIMITED), 1.0)
    assert two.changed == ["a", "b"]
    ours, theirs = one.healths["b"].verdict(0), two.healths["b"].verdict(0)
    assert ours.why == theirs.why
    assert ours.until == pytest.approx(theirs.until, abs=0.1)


async def test_what_was_tried_well_by_one_is_well_for_the_other_and_grows_alike(start_gateway: StartGateway) -> None:
    one, two = await start_gateway("one"), await start_gateway("two")
    one.fail("a", *BROKEN)
    await eventually(lambda: two.state("a") is State.FAILING, 1.0)
    await eventually(lambda: one.healths["a"].takes(time.monotonic()))
    one.succeed("a")
    one.succeed("a")
    await eventually(lambda: two.state("a") is State.HEALTHY, 1.0)
    now = time.monotonic()
    assert one.healths["a"].share(now) == pytest.approx(two.healths["a"].share(now), abs=0.05)


async def test_one_that_only_one_gateway_cannot_reach_is_down_there_alone(start_gateway: StartGateway) -> None:
    one, two = await start_gateway("one"), await start_gateway("two")
    one.fail("a", Unreachable())
    await eventually(lambda: two.state("a") is State.DOWN, 1.0)
    two.healths["a"].observe_probe(Readiness.READY, time.monotonic())
    await asyncio.sleep(1.3)  # both have told once more
    assert one.state("a") is State.DOWN
    assert two.state("a") is State.HEALTHY


async def test_who_comes_later_is_told_what_those_that_live_know(start_gateway: StartGateway) -> None:
    one = await start_gateway("one")
    one.fail("b", Rejected(429, retry_after="30"))
    await asyncio.sleep(0.3)
    two = await start_gateway("two")
    await eventually(lambda: two.state("b") is State.RATE_LIMITED, 1.0)
    assert two.state("a") is State.HEALTHY


async def test_the_word_of_a_gateway_that_died_counts_no_more(start_gateway: StartGateway, redis_url: str) -> None:
    one = await start_gateway("one")
    one.fail("b", Rejected(429, retry_after="30"))
    await asyncio.sleep(0.3)
    await one.aclose()
    with redis.Redis.from_url(redis_url) as client:  # and some seconds pass
        until, _, told = client.hget("{sekisho}:health", "one").partition(b" ")  # type: ignore[union-attr]
        assert 0 < int(until) - time.time() * 1000 <= 5000
        client.hset("{sekisho}:health", "one", b"%d %s" % (int(until) - 5001, told))
        two = await start_gateway("two")
        await asyncio.sleep(0.3)
        assert two.state("b") is State.HEALTHY
        assert client.hkeys("{sekisho}:health") == [b"two"]


@contextlib.contextmanager
def own_valkey(folder: Path) -> Iterator[str]:
    process, url = start_valkey(folder)
    try:
        yield url
    finally:
        process.kill()
        process.wait()


async def test_who_has_no_news_renews_its_word_and_says_nothing(start_gateway: StartGateway, redis_url: str) -> None:
    one = await start_gateway("one")
    await asyncio.sleep(0.2)
    with redis.Redis.from_url(redis_url) as client, client.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe("{sekisho}:health-told")
        before = client.hget("{sekisho}:health", "one")
        await eventually(lambda: client.hget("{sekisho}:health", "one") != before)
        one.fail("a", *BROKEN)
        await eventually(lambda: b"failing" in (client.hget("{sekisho}:health", "one") or b""))
        messages = [heard.get_message(timeout=0.2) for _ in range(10)]
    assert len([message for message in messages if message]) == 1


async def test_while_redis_is_away_each_goes_by_what_it_sees_and_tells_when_it_is_back(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    with own_valkey(tmp_path) as url:
        one, two = await start_gateway("one", url), await start_gateway("two", url)
    one.fail("b", Rejected(429, retry_after="30"))
    await asyncio.sleep(0.5)
    assert (one.state("b"), two.state("b")) == (State.RATE_LIMITED, State.HEALTHY)
    with own_valkey(tmp_path):  # it has forgotten all
        await eventually(lambda: two.state("b") is State.RATE_LIMITED, 3.0)


async def test_what_cannot_be_read_is_not_heard(start_gateway: StartGateway, redis_url: str) -> None:
    one = await start_gateway("one")
    with redis.Redis.from_url(redis_url) as client:
        client.publish("{sekisho}:health-told", b"\xc1 nonsense")
        client.publish("{sekisho}:health-told", msgspec.msgpack.encode(["two", {"a": ["on holiday", "", 1, None]}]))
        client.publish("{sekisho}:health-told", msgspec.msgpack.encode(["two", {"unknown": ["down", "", 1, None]}]))
        at = int(time.time() * 1000) + 1000
        client.publish("{sekisho}:health-told", msgspec.msgpack.encode(["two", {"a": ["down", "Gone.", at, None]}]))
    await eventually(lambda: one.state("a") is State.DOWN)
    assert one.changed == ["a"]
