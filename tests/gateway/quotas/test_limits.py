"""Each kind of limit really refuses, says so truly, and frees when it said."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis

from gateway.errors import ModelNotFound, QuotaExceeded, RequestTooLarge
from gateway.quotas.buckets import Usage
from gateway.quotas.plan import Size
from gateway.settings import Price
from tests.gateway.quotas.conftest import LEASE, Clock, Quotas, Start, leftovers, person, policy

ANN, BOB = person("ann"), person("bob")


async def refused(quotas: Quotas, **asked: Any) -> QuotaExceeded:
    with pytest.raises(QuotaExceeded) as caught:
        await quotas.ask(**{"who": ANN} | asked)
    return caught.value


async def served(quotas: Quotas, used: Usage, **asked: Any) -> None:
    request_id, _ = await quotas.ask(**{"who": ANN} | asked)
    assert await quotas.settle(request_id, used) == [1]


@pytest.mark.parametrize(
    ("limit", "wait_seconds", "kind", "code"),
    [
        ("requests_per_minute", 20, "requests", "rate_limit_exceeded"),
        ("requests_per_day", None, "insufficient_quota", "insufficient_quota"),
        ("requests_per_month", None, "insufficient_quota", "insufficient_quota"),
    ],
)
async def test_requests_are_refused_past_their_limit_until_it_frees(
    quotas: Start, clock: Clock, limit: str, wait_seconds: int | None, kind: str, code: str
) -> None:
    one = await quotas(policy(**{limit: 3}))
    for _ in range(3):
        await served(one, Usage(requests=1))
    error = await refused(one)
    assert (error.status, error.type, error.code) == (429, kind, code)
    assert error.retry_after is not None
    if wait_seconds:
        assert error.retry_after == wait_seconds
    assert "'p'" in error.message
    assert "everyone" in error.message
    await one.ask(BOB)  # has a bucket of his own
    clock.move(error.retry_after - 1)
    await refused(one)
    clock.move(1)
    await one.ask(ANN)


@pytest.mark.parametrize("period", ["minute", "day", "month"])
@pytest.mark.parametrize(
    ("unit", "used", "more"),
    [
        ("input_tokens", Usage(1, 90, 0, 5), {"prompt": 11}),
        ("output_tokens", Usage(1, 5, 0, 90), {"prompt": 1, "output": 11}),
        ("tokens", Usage(1, 50, 0, 40), {"prompt": 5, "output": 6}),
    ],
)
async def test_tokens_are_refused_past_their_limit_until_it_frees(
    quotas: Start, clock: Clock, unit: str, period: str, used: Usage, more: dict[str, int]
) -> None:
    one = await quotas(policy(**{f"{unit}_per_{period}": 100}))
    await served(one, used, prompt=used.input, output=used.output)
    error = await refused(one, **more)
    assert error.type == ("tokens" if period == "minute" else "insufficient_quota")
    assert "10 tokens are left, and this request asks for 11" in error.message
    assert error.retry_after is not None
    clock.move(error.retry_after)
    await one.ask(ANN, **more)


async def test_requests_in_flight_are_bounded_and_come_free_one_by_one(quotas: Start, client: redis.Redis) -> None:
    one = await quotas(policy(concurrent_requests=2))
    first, _ = await one.ask(ANN)
    await one.ask(ANN)
    error = await refused(one)
    assert (error.type, error.code) == ("requests", "rate_limit_exceeded")
    await one.settle(first, Usage(1))
    await one.ask(ANN)
    await refused(one)


async def test_a_request_whose_gateway_died_is_in_flight_no_longer_than_its_lease(quotas: Start, clock: Clock) -> None:
    one = await quotas(policy(concurrent_requests=1))
    request_id, _ = await one.ask(ANN)
    for _ in range(5):
        clock.move(LEASE - 1)
        await one.progress(**{request_id: Usage(1)})
        await refused(one)
    clock.move(LEASE)
    await one.ask(ANN)


async def test_cost_is_counted_by_the_price_of_the_model_and_cached_input_by_its_own(quotas: Start) -> None:
    prices = {"m": Price(input=2, cached_input=0.5, output=8), "big-*": Price(input=100, output=100)}  # type: ignore[arg-type]
    one = await quotas(policy(cost_per_month="0.01"), prices=prices)
    await served(one, Usage(1, 1000, 400, 500), prompt=1000, output=500)
    assert await one.left(ANN) == {"cost_per_month": 10_000 - 600 * 2 - 200 - 500 * 8}
    error = await refused(one, prompt=1, output=600)
    assert (error.type, error.code) == ("insufficient_quota", "insufficient_quota")
    assert "0.004600 are left" in error.message
    await refused(one, prompt=50, output=1, model="big-one")
    await one.ask(ANN, prompt=10**6, output=10**6, model="without-price")


async def test_weights_make_cached_input_lighter_and_output_heavier(quotas: Start) -> None:
    weights = {"cached_input": 0.1, "output": 4.0}
    one = await quotas(policy(tokens_per_day=1000, input_tokens_per_day=900, weights=weights))
    await served(one, Usage(1, 105, 100, 50), prompt=105, output=50)
    assert await one.left(ANN) == {"input_tokens_per_day": 885, "tokens_per_day": 1000 - 15 - 200}


async def test_a_request_that_can_never_be_served_is_told_so(quotas: Start) -> None:
    error = await refused(await quotas(policy(tokens_per_minute=100)), prompt=101)
    assert "never" in error.message
    assert error.retry_after is None
    assert (b"x-should-retry", b"false") in error.headers()


async def test_a_guess_of_output_larger_than_the_limit_does_not_block_the_first_request(quotas: Start) -> None:
    one = await quotas(policy(tokens_per_minute=100))
    await served(one, Usage(1, 20, 0, 30), prompt=20)
    assert await one.left(ANN) == {"tokens_per_minute": 50}


async def test_nothing_is_taken_by_a_request_that_one_limit_refuses(quotas: Start, client: redis.Redis) -> None:
    one = await quotas(
        policy("day", requests_per_day=1, tokens_per_minute=1000), policy("flight", concurrent_requests=5)
    )
    await served(one, Usage(1), prompt=10, output=10)
    before = await one.left(ANN)
    request_id = "again"
    await refused(one, prompt=10, output=10, request_id=request_id)
    assert await one.left(ANN) == before
    assert await one.settle(request_id, Usage()) == [1]
    assert await one.left(ANN) == before
    assert leftovers(client) == []


async def test_of_several_limits_the_one_that_frees_last_is_named(quotas: Start) -> None:
    one = await quotas(policy("slow", requests_per_day=1), policy("quick", requests_per_minute=1))
    await served(one, Usage(1))
    error = await refused(one)
    assert "'slow'" in error.message
    assert error.code == "insufficient_quota"


async def test_limits_in_shadow_are_reported_and_never_refuse(quotas: Start) -> None:
    one = await quotas(policy(requests_per_day=2, concurrent_requests=1, max_output_tokens=5, shadow=True))
    answers = [(await one.ask(ANN, output=6))[1] for _ in range(3)]
    assert [len(answer.shadow) for answer in answers] == [1, 2, 3]
    assert "over 1 concurrent requests (everyone)" in answers[1].shadow[1]
    assert all(answer.requests is None for answer in answers)  # no header speaks of what is not enforced


async def test_limits_on_a_request_itself_have_errors_of_their_own(quotas: Start) -> None:
    one = await quotas(policy(max_context_tokens=100, max_output_tokens=50, allowed_models=["m", "qwen*"]))
    with pytest.raises(RequestTooLarge, match="At most 100 tokens") as caught:
        await one.ask(ANN, prompt=60, output=41)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    with pytest.raises(RequestTooLarge, match="asks for 51"):
        await one.ask(ANN, output=51)
    with pytest.raises(ModelNotFound, match="not among those"):
        await one.ask(ANN, model="gpt")
    await one.ask(ANN, prompt=50, output=50, model="qwen3")
    plan = await one.plan(ANN, Size(10, 0, 4096))
    assert plan.output_cap == plan.room == 50


async def test_a_day_ends_at_midnight_of_the_configured_zone(quotas: Start, clock: Clock) -> None:
    zone = ZoneInfo("Asia/Tokyo")
    one = await quotas(policy(requests_per_day=1), zone="Asia/Tokyo")
    await served(one, Usage(1))
    error = await refused(one)
    freed = datetime.fromtimestamp(clock.ms / 1000 + (error.retry_after or 0), zone)
    assert (freed.hour, freed.minute, freed.second) == (0, 0, 0)


async def test_a_gateway_whose_clock_is_wrong_by_hours_counts_the_same_day(
    quotas: Start, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await quotas(policy(requests_per_day=3))
    for hours in (-10, 0, 10):
        monkeypatch.setattr("gateway.quotas.service._now_ms", lambda hours=hours: clock.ms + hours * 3_600_000)
        await served(one, Usage(1))
    await refused(one)


async def test_there_is_no_double_allowance_where_a_minute_ends(quotas: Start, clock: Clock) -> None:
    one = await quotas(policy(requests_per_minute=60))
    taken = 0
    for _ in range(600):  # ten a second for a minute
        clock.move(0.1)
        try:
            await served(one, Usage(1))
        except QuotaExceeded:
            continue
        taken += 1
    assert 119 <= taken <= 120  # the burst of a full bucket, and what came in since; never a burst more


async def test_a_clock_that_jumps_back_neither_frees_nor_blocks(quotas: Start, clock: Clock) -> None:
    one = await quotas(policy(requests_per_minute=2, tokens_per_minute=100))
    await served(one, Usage(1, 10, 0, 10), prompt=10, output=10)
    clock.move(-3600)
    await served(one, Usage(1, 10, 0, 10), prompt=10, output=10)
    error = await refused(one)
    assert error.retry_after == 30
    clock.move(30)
    await one.ask(ANN)


async def test_members_of_a_group_share_one_bucket_where_the_policy_says_so(quotas: Start) -> None:
    shared = policy(requests_per_day=2, applies_to=["group:lab"], each=False)
    one = await quotas(shared)
    ann, bob = person("ann", groups=("lab",)), person("bob", groups=("lab",))
    await one.ask(ann)
    await one.ask(bob)
    error = await refused(one, who=ann)
    assert "group:lab" in error.message
    await one.ask(BOB)  # of no group


async def test_the_headers_tell_the_tightest_limits(quotas: Start) -> None:
    one = await quotas(policy("a", requests_per_minute=10, tokens_per_day=500), policy("b", tokens_per_minute=600))
    _, answer = await one.ask(ANN, prompt=100, output=50)
    assert answer.requests is not None
    assert answer.tokens is not None
    assert answer.requests == (10, 9, 6000)
    assert answer.tokens[:2] == (500, 350)
    error = await refused(one, prompt=500)
    told = dict(error.headers())
    assert told[b"x-ratelimit-remaining-tokens"] == b"350"
    assert told[b"x-ratelimit-remaining-requests"] == b"9"
    assert told[b"retry-after"].isdigit()
