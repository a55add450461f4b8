"""The ledger on a real Valkey: by day, subject, model and key, once, and within bounds."""

from __future__ import annotations

from datetime import date

import pytest
import redis

from gateway.store import keys
from gateway.store.redis import Store
from gateway.usage import ledger
from gateway.usage.ledger import Booked, Used, Whose

DAY = date(2026, 9, 21)
DAY_MS = 1_790_000_000_000


async def all_booked(store: Store, *days: date) -> list[Booked]:
    return [booked async for some in ledger.booked(store, days) for booked in some]


async def test_what_was_used_is_told_by_subject_key_program_and_model(store: Store) -> None:
    how = ({"model": "a|b", "key_id": "k1"}, {"model": "a|b", "key_id": "k2", "acting": "rag"}, {"model": "c"})
    for number, by in enumerate(how):
        for again in ("x", "y"):
            call = ledger.settle(f"{number}{again}", DAY_MS, Used(10, 5, 2, failed=number), Whose("usr_1", **by))
            await store.run_all(call, call)
    found = await all_booked(store, DAY)
    assert {(one.day, one.subject, one.key_id, one.acting, one.model) for one in found} == {
        (DAY, "usr_1", "k1", "", "a|b"),
        (DAY, "usr_1", "k2", "rag", "a|b"),
        (DAY, "usr_1", "", "", "c"),
    }
    for one in found:
        amounts = {"requests": 2, "prompt_tokens": 20, "completion_tokens": 10, "cached_tokens": 4}
        failed = {"k1": {}, "k2": {"failed": 2}, "": {"failed": 4}}[one.key_id]
        assert dict(one.amounts) == amounts | failed
    whole = await ledger.read(store, "usr_1", "20260921")
    assert (whole["requests"], whole["prompt_tokens"], whole["failed"]) == (6, 60, 6)


async def test_who_books_for_a_dead_gateway_does_so_only_while_its_claim_holds(store: Store) -> None:
    await store.command("ZADD", keys.RESERVATIONS, "1000.5", "r1")
    for claim, found in (("999.5", 0), ("1000.5", 1), ("1000.5", 1)):
        await store.run(ledger.settle("r1", DAY_MS, Used(10, 5), Whose("usr_1"), claim))
        assert sum(one.amounts["requests"] for one in await all_booked(store, DAY)) == found


async def test_days_are_read_one_after_another_however_many_subjects_they_have(store: Store) -> None:
    for number in range(250):
        await store.run(
            ledger.settle(f"r{number}", DAY_MS + number % 2 * 86_400_000, Used(1, 1), Whose(f"usr_{number}"))
        )
    days = (DAY, date(2026, 9, 22), date(2026, 9, 23))
    assert await ledger.accounts(store, days) == 250
    assert await ledger.accounts(store, days[:1]) == 125
    found = await all_booked(store, *days)
    assert [one.day for one in found] == [days[0]] * 125 + [days[1]] * 125
    assert len({one.subject for one in found}) == 250


async def test_past_the_bound_names_of_a_program_are_booked_on_the_program(
    store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MOST_NAMES", 3)
    for number in range(10):
        await store.run(ledger.settle(f"a{number}", DAY_MS, Used(1, 1), Whose(f"rag/n{number}", acting="rag")))
    # Whom it named before the bound, other programs' names and people are booked as ever.
    for subject, acting in (("rag/n1", "rag"), ("rag2/n", "rag2"), ("rag-x/n", "rag-x"), ("usr_1", "rag")):
        await store.run(ledger.settle(f"b{subject}", DAY_MS, Used(1, 1), Whose(subject, acting=acting)))
    requests = {one.subject: one.amounts["requests"] for one in await all_booked(store, DAY)}
    assert requests == {"rag": 7, "rag/n0": 1, "rag/n1": 2, "rag/n2": 1, "rag2/n": 1, "rag-x/n": 1, "usr_1": 1}
    with redis.Redis.from_url(redis_url) as server:
        assert len(server.keys("*:usage:*")) == len(requests)
        assert all(server.ttl(key) > 0 for key in server.keys("*usage*"))


async def test_an_empty_day_has_nothing(store: Store) -> None:
    assert await all_booked(store, DAY) == []
    assert await ledger.accounts(store, (DAY,)) == 0
    assert await ledger.read(store, "usr_1", "20260921") == {}
