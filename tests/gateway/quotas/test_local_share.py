"""While Redis is away: a share of each limit for a stated time, and afterwards books that are right."""

from __future__ import annotations

import pytest
import redis

from gateway.errors import QuotaExceeded, StoreAway
from gateway.quotas.book import PolicyBook
from gateway.quotas.buckets import Usage
from gateway.quotas.local_share import LocalShare
from gateway.quotas.plan import Size
from gateway.quotas.service import QuotaService
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.gateway.quotas.conftest import LEASE, Clock, Quotas, Start, person, policy

ANN = person("ann")


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
async def sharing(quotas: Start, store: Store, seconds: Seconds) -> Quotas:
    """One of two gateways, for ten minutes."""
    found = await quotas()
    share = LocalShare(10, 2, seconds)
    found.service = QuotaService(store, PolicyBook(Records(store), 0.0), {}, "UTC", LEASE, share)
    return found


async def refused(one: Quotas, name: str, size: Size) -> QuotaExceeded:
    plan = await one.plan(ANN, size, name)
    with pytest.raises(QuotaExceeded) as caught:
        one.service.reserve_locally(plan)
    return caught.value


async def test_each_gateway_lets_in_its_share_of_what_is_counted(sharing: Quotas, seconds: Seconds) -> None:
    await sharing.directory.create(None, policy(requests_per_minute=4, concurrent_requests=8, tokens_per_day=400))
    for name in ("a", "b"):
        sharing.service.reserve_locally(await sharing.plan(ANN, Size(10, 10), name))
    assert (await refused(sharing, "c", Size(10, 10))).retry_after == 30
    seconds.now += 30
    sharing.service.reserve_locally(await sharing.plan(ANN, Size(10, 10), "d"))
    assert (await refused(sharing, "e", Size(150, 10))).code == "rate_limit_exceeded"
    seconds.now += 60
    assert (await refused(sharing, "f", Size(150, 10))).code == "insufficient_quota"
    sharing.service.settle("a", Usage(1, 5, 0, 5))
    sharing.service.settle("b", Usage(1, 5, 0, 5))
    sharing.service.reserve_locally(await sharing.plan(ANN, Size(150, 10), "g"))


async def test_requests_in_flight_are_bounded_by_a_share_and_never_by_less_than_one(sharing: Quotas) -> None:
    await sharing.directory.create(None, policy(concurrent_requests=1))
    sharing.service.reserve_locally(await sharing.plan(ANN, Size(1, 1), "a"))
    await refused(sharing, "b", Size(1, 1))
    sharing.service.settle("a", Usage(1))
    sharing.service.reserve_locally(await sharing.plan(ANN, Size(1, 1), "c"))


async def test_after_its_time_all_is_refused_until_redis_is_back(sharing: Quotas, seconds: Seconds) -> None:
    plans = [await sharing.plan(ANN, Size(1, 1), name) for name in "abcd"]
    sharing.service.reserve_locally(plans[0])
    seconds.now += 601
    with pytest.raises(StoreAway):
        sharing.service.reserve_locally(plans[1])
    await sharing.reserve(plans[2])
    sharing.service.reserve_locally(plans[3])


async def test_what_was_let_in_is_booked_in_redis_when_it_is_back(
    sharing: Quotas, store: Store, clock: Clock, client: redis.Redis
) -> None:
    await sharing.directory.create(None, policy(tokens_per_day=1000, requests_per_minute=10))
    sharing.service.reserve_locally(await sharing.plan(ANN, Size(100, 100), "a"))
    calls = sharing.service.settle("a", Usage(1, 100, 0, 30))
    assert await store.run_all(*calls, *calls) == [1, 0]
    assert await sharing.left(ANN) == {"requests_per_minute": 9, "tokens_per_day": 870}


async def test_without_the_setting_nothing_goes_in(quotas: Start) -> None:
    one = await quotas()
    with pytest.raises(StoreAway):
        one.service.reserve_locally(await one.plan(ANN, Size(1, 1)))


async def test_the_last_known_policies_apply_while_they_cannot_be_read(
    sharing: Quotas, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> object:
        raise StoreAway("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "command", away)
        with pytest.raises(StoreAway):  # never read: nobody knows what would apply
            await sharing.plan(ANN, Size(1, 1), "a")
    await sharing.directory.create(None, policy(requests_per_minute=2))
    await sharing.plan(ANN, Size(1, 1), "b")
    monkeypatch.setattr(store, "command", away)
    assert len((await sharing.plan(ANN, Size(1, 1), "c")).buckets) == 1
