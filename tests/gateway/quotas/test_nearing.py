"""Budgets near their end: seen without a person's name, and no longer than they are near it."""

from __future__ import annotations

import pytest

from gateway.quotas.buckets import Usage
from gateway.quotas.nearing import Nearing
from gateway.quotas.plan import Size
from gateway.quotas.policy import Policy
from tests.gateway.quotas.conftest import Clock, Start, person, policy


async def test_the_fullest_budget_is_told_and_how_many_are_near_their_end(quotas: Start) -> None:
    one = await quotas(policy(tokens_per_month=1000, requests_per_day=10))
    for name, tokens in (("ann", 950), ("bob", 900), ("cid", 10)):
        request_id, _ = await one.ask(person(name), prompt=1, output=1)
        await one.settle(request_id, Usage(1, tokens, 0, 0))
    nearing = one.service.nearing
    await nearing.look()
    assert nearing.fullest() == {("p", "tokens_per_month"): 0.95, ("p", "requests_per_day"): 0.1}
    assert nearing.near() == {("p", "tokens_per_month"): 2, ("p", "requests_per_day"): 0}


async def test_a_shared_budget_is_one(quotas: Start) -> None:
    one = await quotas(policy(applies_to=["everyone"], each=False, requests_per_day=4))
    for name in ("ann", "bob"):
        await one.ask(person(name))
    await one.service.nearing.look()
    assert one.service.nearing.fullest() == {("p", "requests_per_day"): 0.5}


async def test_what_is_counted_by_the_minute_or_refuses_nobody_is_no_budget(quotas: Start) -> None:
    one = await quotas(
        policy(requests_per_minute=5, concurrent_requests=2), policy("s", requests_per_day=1, shadow=True)
    )
    await one.ask(person())
    await one.service.nearing.look()
    assert one.service.nearing.fullest() == {}


async def test_a_new_day_begins_with_nothing_used(quotas: Start, clock: Clock) -> None:
    one = await quotas(policy(requests_per_day=10))
    await one.ask(person())
    nearing = one.service.nearing
    for _ in range(5):  # whichever of the two days that its bucket knows it was
        clock.move(12 * 3600)
        await nearing.look()
    assert nearing.fullest() == {}
    await one.ask(person())
    await nearing.look()
    assert nearing.fullest() == {("p", "requests_per_day"): 0.1}


async def test_policies_that_changed_are_told_as_they_are_now(quotas: Start) -> None:
    one = await quotas(policy(requests_per_day=10), policy("gone", requests_per_day=10))
    await one.ask(person())
    nearing = one.service.nearing
    await nearing.look()
    assert set(nearing.fullest()) == {("p", "requests_per_day"), ("gone", "requests_per_day")}
    await one.directory.delete(None, Policy, "gone")
    await one.ask(person())
    await nearing.look()
    assert nearing.fullest() == {("p", "requests_per_day"): 0.2}


async def test_however_many_ask_a_bounded_number_is_remembered(quotas: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.quotas.nearing._MOST", 70)
    one = await quotas(policy(requests_per_day=10))
    for number in range(100):
        await one.plan(person(f"p{number}"), Size(1))
    nearing: Nearing = one.service.nearing
    await nearing.look()
    assert len(nearing._used["p", "requests_per_day"]) == 70
