"""What was reserved is settled exactly once, whatever ends the request, and whoever does it."""

from __future__ import annotations

import asyncio
import logging

import pytest
import redis

from backends.errors import Unreachable
from gateway.errors import InternalError, QuotaExceeded, StoreAway
from gateway.quotas.book import PolicyBook
from gateway.quotas.buckets import Usage
from gateway.quotas.plan import Size
from gateway.quotas.reaper import Account, Reaper
from gateway.store import keys
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.gateway.quotas.conftest import LEASE, Clock, Start, leftovers, person, policy

ANN = person("ann")
ALL = policy(
    "all",
    requests_per_minute=1000,
    tokens_per_minute=10_000,
    requests_per_day=1000,
    tokens_per_day=10_000,
    concurrent_requests=5,
)
USED = Usage(1, 100, 20, 50)
AFTER = {
    "requests_per_minute": 999,
    "tokens_per_minute": 9850,
    "requests_per_day": 999,
    "tokens_per_day": 9850,
    "concurrent_requests": 5,
}


def undrained(left: dict[str, int]) -> dict[str, int]:
    """Without the limits that are whole again after a minute."""
    return {name: value for name, value in left.items() if "minute" not in name}


def saying(used: Usage | None) -> Account:
    async def account(_: str) -> Usage | None:
        return used

    return account


async def test_every_call_may_be_sent_twice(quotas: Start, store: Store, client: redis.Redis) -> None:
    one = await quotas(ALL)
    plan = await one.plan(ANN, Size(120, 200))
    first, second = await store.run_all(one.service.reserve(plan), one.service.reserve(plan))
    assert first == second
    while_held = await one.left(ANN)
    calls = one.service.progress({plan.request_id: Usage(1, 100, 20, 10)})
    await store.run_all(*calls, *calls)
    assert await one.left(ANN) == while_held
    calls = one.service.settle(plan.request_id, USED)
    assert await store.run_all(*calls, *calls, *calls) == [1, 0, 0]
    assert await one.left(ANN) == AFTER
    assert leftovers(client) == []


async def test_what_was_not_used_is_given_back_and_what_was_used_beyond_is_charged(quotas: Start) -> None:
    one = await quotas(ALL)
    for output in (10, 5000):  # reserved were 120 + 64, by the floor of an estimate, or the client's limit
        request_id, _ = await one.ask(ANN, 120, 200)
        await one.settle(request_id, Usage(1, 120, 0, output))
    left = await one.left(ANN)
    assert left["tokens_per_minute"] == left["tokens_per_day"] == 10_000 - 240 - 5010


async def test_a_request_that_never_reached_the_engine_costs_no_day_nor_tokens(quotas: Start) -> None:
    one = await quotas(ALL)
    request_id, _ = await one.ask(ANN, 120, 200)
    await one.settle(request_id, Usage())
    # An attempt counts, as with the official service: else whoever is refused by the queue may ask without bound.
    assert await one.left(ANN) == {name: ALL.amount(name) for name in AFTER} | {"requests_per_minute": 999}


async def test_a_late_settlement_does_nothing_after_the_reaper_and_the_reaper_nothing_after_it(
    quotas: Start, clock: Clock, store: Store, client: redis.Redis
) -> None:
    one = await quotas(ALL)
    for reaped_first in (True, False):
        request_id, _ = await one.ask(ANN, 120, 200)
        clock.move(2 * LEASE)
        calls = one.service.settle(request_id, USED)
        if not reaped_first:
            await store.run_all(*calls)
        await Reaper(store, LEASE, saying(USED)).sweep()
        assert await store.run_all(*calls) == [0]
        assert leftovers(client) == []
    left = await one.left(ANN)
    assert left["tokens_per_day"] == 10_000 - 300
    assert left["requests_per_day"] == 998


async def test_who_dies_is_settled_with_the_engines_count_or_with_what_was_last_told(
    quotas: Start, clock: Clock, store: Store, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    dead, living = await quotas(ALL), await quotas()
    counted, _ = await dead.ask(ANN, 120, 200, "counted")
    await dead.ask(ANN, 120, 200, "told")
    await dead.progress(told=Usage(1, 110, 10, 40), counted=Usage(1, 110, 10, 40))
    clock.move(LEASE + 1)
    reaper = Reaper(store, LEASE, lambda name: saying(USED if name == counted else None)(name))
    assert await reaper.sweep() == 0  # one renewal may be late
    clock.move(LEASE / 3)
    with caplog.at_level(logging.WARNING):
        assert await reaper.sweep() == 2
    assert "counted was settled in its gateway's place" in caplog.text
    assert (await living.left(ANN))["tokens_per_day"] == 10_000 - 150 - 150
    assert leftovers(client) == []
    assert await reaper.sweep() == 0


async def test_reapers_that_work_at_once_settle_each_request_once(quotas: Start, clock: Clock, store: Store) -> None:
    one = await quotas(policy(tokens_per_day=10**6))
    for _ in range(250):
        await one.ask(ANN, 10, 10)
    clock.move(2 * LEASE)
    reapers = [Reaper(store, LEASE, saying(Usage(1, 7, 0, 3))) for _ in range(4)]
    while sum(await asyncio.gather(*(reaper.sweep() for reaper in reapers))):
        pass
    assert await one.left(ANN) == {"tokens_per_day": 10**6 - 2500}


async def test_one_who_was_claimed_and_lives_after_all_is_not_settled(
    quotas: Start, clock: Clock, store: Store
) -> None:
    one = await quotas(ALL)
    request_id, _ = await one.ask(ANN, 120, 200)
    clock.move(2 * LEASE)

    async def slow(_: str) -> Usage:
        await one.progress(**{request_id: Usage(1, 100, 0, 5)})
        return Usage(1)

    await Reaper(store, LEASE, slow).sweep()
    await one.settle(request_id, USED)
    assert undrained(await one.left(ANN)) == undrained(AFTER)


async def test_an_engine_that_cannot_say_yet_is_asked_again_but_not_for_ever(
    quotas: Start, clock: Clock, store: Store, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await quotas(ALL)
    await one.ask(ANN, 120, 200, "silent")
    await one.progress(silent=USED)

    async def silent(_: str) -> Usage | None:
        raise Unreachable("starting")

    reaper = Reaper(store, LEASE, silent)
    for _ in range(5):
        clock.move(2 * LEASE)
        assert await reaper.sweep() == 1
        assert leftovers(client) != []
    monkeypatch.setattr("gateway.quotas.reaper._PATIENCE_SECONDS", 0.0)
    clock.move(2 * LEASE)
    await reaper.sweep()
    assert leftovers(client) == []
    assert undrained(await one.left(ANN)) == undrained(AFTER)


async def test_after_an_outage_the_living_may_renew_before_anyone_is_reaped(
    quotas: Start, clock: Clock, store: Store, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await quotas(ALL)
    await one.ask(ANN, 120, 200)
    clock.move(2 * LEASE)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def away(*_: object) -> object:
        raise StoreAway("away")

    reaper = Reaper(store, LEASE, saying(USED))
    monkeypatch.setattr("gateway.quotas.reaper.asyncio.sleep", noted)
    with monkeypatch.context() as patch:
        patch.setattr(store, "run", away)
        reaper.start()
        while len(pauses) < 3:
            await sleep(0)
    while leftovers(client):
        await sleep(0.01)
    await sleep(0.01)
    await reaper.aclose()
    assert pauses[:3] == [LEASE] * 3
    assert pauses[-1] == LEASE / 3
    assert undrained(await one.left(ANN)) == undrained(AFTER)


async def test_a_claim_whose_reaper_died_is_taken_up_by_another(quotas: Start, clock: Clock, store: Store) -> None:
    one = await quotas(ALL)
    await one.ask(ANN, 120, 200)
    clock.move(2 * LEASE)

    async def dies(_: str) -> Usage | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Reaper(store, LEASE, dies).sweep()
    other = Reaper(store, LEASE, saying(USED))
    assert await other.sweep() == 0
    clock.move(LEASE)
    assert await other.sweep() == 1
    assert undrained(await one.left(ANN)) == undrained(AFTER)


async def test_what_was_used_is_charged_though_a_failover_forgot_the_reservation(
    quotas: Start, client: redis.Redis
) -> None:
    one = await quotas(ALL)
    request_id, _ = await one.ask(ANN, 120, 200)
    for pattern in ("quota:*", "reservation*"):
        client.delete(*client.keys(f"{{sekisho}}:{pattern}"))
    assert await one.settle(request_id, USED) == [1]
    assert await one.left(ANN) == AFTER


async def test_a_reservation_that_arrives_after_its_own_end_takes_nothing(
    quotas: Start, store: Store, client: redis.Redis
) -> None:
    one = await quotas(ALL)
    plan = await one.plan(ANN, Size(120, 200))
    late = one.service.reserve(plan)
    await one.settle(plan.request_id, Usage())
    with pytest.raises(InternalError):
        one.service.reserved(plan, await store.run(late))
    assert leftovers(client) == []
    assert (await one.left(ANN))["tokens_per_day"] == 10_000


async def test_tokens_drain_from_when_they_were_streamed(quotas: Start, clock: Clock) -> None:
    one = await quotas(policy(tokens_per_minute=600))
    request_id, _ = await one.ask(ANN, 200, 64)
    assert await one.left(ANN) == {"tokens_per_minute": 600 - 264}
    clock.move(30)  # nothing drains that has not been used
    assert await one.left(ANN) == {"tokens_per_minute": 600 - 264}
    await one.progress(**{request_id: Usage(1, 200, 0, 40)})
    clock.move(10)
    assert await one.left(ANN) == {"tokens_per_minute": 600 - 264 + 100}
    await one.settle(request_id, Usage(1, 200, 0, 50))
    assert await one.left(ANN) == {"tokens_per_minute": 600 - 250 + 100}


async def test_the_output_of_a_subject_is_learned_and_reserved_next_time(quotas: Start) -> None:
    one = await quotas(policy(tokens_per_day=10**9))
    for length in [900] * 20 + [300] * 5:
        request_id, _ = await one.ask(ANN, 10)
        await one.settle(request_id, Usage(1, 10, 0, length))
    learned = [
        (await one.ask(ANN, 10))[1].output,
        (await one.ask(ANN, 10, 10_000))[1].output,
        (await one.ask(ANN, 10, 100))[1].output,
        (await one.ask(person("bob"), 10))[1].output,
        (await one.ask(ANN, 10, model="other"))[1].output,
    ]
    assert 900 <= learned[0] <= 1200
    assert learned[1] == learned[0]  # a huge limit is no reason to reserve more
    assert learned[2:] == [100, 512, 512]
    assert one.service.expected_output(await one.plan(ANN, Size(10))) == learned[0]


async def test_what_is_learned_comes_near_the_90th_percentile(quotas: Start) -> None:
    one = await quotas()
    for number in range(1500):
        request_id, _ = await one.ask(ANN, 10)
        await one.settle(request_id, Usage(1, 10, 0, 1 + (number * 377) % 1000))
    assert 1.25 * 780 < (await one.ask(ANN, 10))[1].output < 1.25 * 1020


async def test_answers_that_were_cut_off_teach_nothing(quotas: Start) -> None:
    one = await quotas()
    request_id, _ = await one.ask(ANN, 10)
    await one.settle(request_id, Usage(1, 10, 0, 5000), learn=False)
    assert (await one.ask(ANN, 10))[1].output == 512


async def test_200_at_once_get_no_more_than_the_limit(quotas: Start) -> None:
    gateways = [await quotas(policy(tokens_per_minute=1000, concurrent_requests=50)), await quotas()]

    async def ask(number: int) -> bool:
        try:
            await gateways[number % 2].ask(ANN, 50, 50, f"r{number}")
        except QuotaExceeded:
            return False
        return True

    assert sum(await asyncio.gather(*(ask(number) for number in range(200)))) == 10


async def test_a_counter_lives_no_longer_than_two_days_after_its_period(quotas: Start, client: redis.Redis) -> None:
    one = await quotas(ALL)
    request_id, _ = await one.ask(ANN, 10, 10)
    await one.settle(request_id, USED)
    found = {key.decode(): client.ttl(key) for key in client.scan_iter("{sekisho}:*")}
    assert all(life > 0 for key, life in found.items() if ":record" not in key and "test-clock" not in key), found
    assert max(found.values()) <= 30 * 86_400


async def test_a_policy_that_cannot_be_read_is_told_once_and_left_out(
    store: Store, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(keys.record("policy", "odd"), b'{"id":"odd","tokens_per_day":"many"}')
    client.zadd(keys.records("policy"), {"odd": 0})
    book = PolicyBook(Records(store), 0.0)
    for _ in range(3):
        assert await book.all() == ()
    assert caplog.text.count("policy odd cannot be read") == 1
