"""How often named beginnings were found in a cache, counted in a real Valkey."""

from __future__ import annotations

import time

import pytest
import redis

from gateway.errors import BadRequest
from gateway.routing import prefix_use
from gateway.routing.prefix_use import PrefixUse, prefix_name, prefix_report, prefix_used
from gateway.store.redis import Store


@pytest.fixture
def server(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


async def counted(store: Store, tenant: str = "t") -> dict[str, tuple[int, int, int]]:
    return {one.prefix_id: one[2:] for one in await prefix_report(store, tenant)}


async def test_requests_and_tokens_are_counted_by_tenant_and_name(store: Store) -> None:
    calls = [
        prefix_used("r1", "t", "manual", 100, 0),
        prefix_used("r2", "t", "manual", 120, 90),
        prefix_used("r3", "t", "faq|1", 10, 5),
        prefix_used("r4", "t:2/x", "manual", 7, 7),
    ]
    assert await store.run_all(*calls) == [1, 1, 1, 1]
    assert await counted(store) == {"manual": (2, 220, 90), "faq|1": (1, 10, 5)}
    (other,) = await prefix_report(store, "t:2/x")
    assert other == PrefixUse("manual", other.last_used, 1, 7, 7)
    assert abs(other.last_used - time.time()) < 60
    assert await prefix_report(store, "nobody") == []


async def test_a_request_that_is_sent_twice_counts_once(store: Store) -> None:
    call = prefix_used("r1", "t", "manual", 100, 50)
    assert await store.run_all(call, call) == [1, 0]
    assert await counted(store) == {"manual": (1, 100, 50)}


async def test_names_beyond_the_bound_are_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_use, "MOST_NAMES", 3)
    for index in range(5):
        await store.run(prefix_used(f"r{index}", "t", f"p{index}", 1, 0))
    await store.run(prefix_used("again", "t", "p0", 1, 0))
    assert await counted(store) == {"p0": (2, 2, 0), "p1": (1, 1, 0), "p2": (1, 1, 0)}


async def test_a_name_that_nobody_used_for_30_days_makes_room(
    store: Store, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_use, "MOST_NAMES", 1)
    await store.run(prefix_used("r1", "t", "old", 1, 0))
    server.zadd("{sekisho}:prefixes:t", {"old": time.time() - 31 * 86400})
    assert await counted(store) == {}
    await store.run(prefix_used("r2", "t", "new", 2, 1))
    assert await counted(store) == {"new": (1, 2, 1)}
    assert server.hlen("{sekisho}:prefix-use:t") == 3


async def test_all_of_it_is_gone_30_days_after_its_last_use(store: Store, server: redis.Redis) -> None:
    await store.run(prefix_used("r1", "t", "manual", 1, 0))
    names = {key.decode(): server.ttl(key) for key in server.scan_iter()}
    assert names == {
        "{sekisho}:prefixes:t": 30 * 86400,
        "{sekisho}:prefix-use:t": 30 * 86400,
        "{sekisho}:prefix-used:r1": 600,
    }


def test_a_name_is_short_and_printable() -> None:
    assert prefix_name(None) == ""
    assert prefix_name(b"manual-v2/de") == "manual-v2/de"
    for bad in (b"", b"a b", b"a\n", b"a" * 129, "日".encode(), b"\xff", b"a\0"):
        with pytest.raises(BadRequest, match="X-Prefix-Id"):
            prefix_name(bad)
