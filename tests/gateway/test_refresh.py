"""Refreshing a session's tokens: one asks, the others read; a refusal ends the session, an outage does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import redis

from gateway.errors import Forbidden, ProviderAway
from gateway.identity import refresh
from gateway.identity.code_flow import Answer, Refused
from gateway.identity.refresh import Refresher, Renewed
from gateway.identity.sessions import Arrival, Session, Sessions, Tokens
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.sealing import Sealer
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import eventually

ISSUER = "https://idp.example"


class FakeSource:
    """A provider that takes each refresh token once, as those that rotate them do."""

    def __init__(self) -> None:
        self.valid = "token-0"
        self.asked = 0
        self.taken_over: list[str] = []
        self.seconds = 300
        self.wait = asyncio.Event()
        self.wait.set()
        self.fault: Exception | None = None
        self.verdict: Exception | None = None

    async def renew(self, session: Session, held: Tokens) -> Renewed:
        self.asked += 1
        await self.wait.wait()
        if self.fault is not None:
            raise self.fault
        if held.refresh_token != self.valid:
            raise Refused("invalid_grant")
        self.valid = f"token-{self.asked}"
        return Renewed(Tokens("new-id", self.valid), Answer("new-id", "", self.valid, int(time.time()) + self.seconds))

    async def take_over(self, session: Session, answer: Answer) -> None:
        self.taken_over.append(answer.id_token)
        if self.verdict is not None:
            raise self.verdict

    def believed_seconds(self, issuer: str) -> float:
        return 600


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
async def gateway(redis_url: str, source: FakeSource) -> AsyncIterator[Callable[[], tuple[Sessions, Refresher]]]:
    """Makes gateways that share one Redis and one provider."""
    stores: list[Store] = []
    refreshers: list[Refresher] = []

    def make() -> tuple[Sessions, Refresher]:
        stores.append(Store(redis_url, REDIS_TIMEOUT))
        sessions = Sessions(stores[-1], Sealer(b"k" * 32, "tokens of sessions"), 3600, 86_400)
        refreshers.append(Refresher(stores[-1], sessions, source))
        return sessions, refreshers[-1]

    yield make
    source.wait.set()
    for refresher in refreshers:
        await refresher.aclose()
    for store in stores:
        await store.aclose()


async def begun(sessions: Sessions, expires_in: float, **fields: Any) -> Session:
    arrival = Arrival("usr_a", ISSUER, "", "", Tokens("id", "token-0"), "", int(time.time() + expires_in))
    _, session = await sessions.begin(arrival)
    if not fields:
        return session
    changed = msgspec.structs.replace(session, **fields)
    assert await sessions.replace(session, changed)
    return changed


async def test_a_word_that_still_holds_is_not_asked_for(gateway: Any, source: FakeSource) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, 300)
    assert await refresher.fresh(session) is session
    never = await begun(sessions, 0, access_expires=0)
    assert await refresher.fresh(never) is never
    assert source.asked == 0


async def test_near_its_end_it_is_renewed_and_kept_encrypted(gateway: Any, source: FakeSource, redis_url: str) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, 10)
    fresh = await refresher.fresh(session)
    assert fresh is not None
    assert fresh.access_expires > time.time() + 200
    assert sessions.tokens(fresh) == Tokens("new-id", "token-1")
    assert source.taken_over == ["new-id"]
    assert b"token-1" not in redis.Redis.from_url(redis_url).get(keys.session(session.id))


async def test_of_many_requests_at_four_gateways_one_asks_and_all_go_on(gateway: Any, source: FakeSource) -> None:
    gateways = [gateway() for _ in range(4)]
    session = await begun(gateways[0][0], -1)
    results = await asyncio.gather(*(refresher.fresh(session) for _, refresher in gateways for _ in range(25)))
    assert source.asked == 1
    assert {result.access_expires for result in results} == {results[0].access_expires}
    assert results[0].access_expires > time.time()
    assert not await gateways[0][0]._store.command("EXISTS", keys.refresh(session.id))


async def test_while_the_word_holds_nobody_waits_for_another_gateways_answer(gateway: Any, source: FakeSource) -> None:
    (sessions, slow), (_, other) = gateway(), gateway()
    session = await begun(sessions, 30)
    source.wait.clear()
    asking = asyncio.create_task(slow.fresh(session))
    await eventually(lambda: source.asked == 1)
    assert await other.fresh(session) == session
    assert not asking.done()
    source.wait.set()
    assert (await asking).access_expires > session.access_expires


async def test_a_provider_slower_than_the_lease_is_still_asked_once(
    gateway: Any, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "_LEASE_MS", 150)
    (sessions, slow), (_, other) = gateway(), gateway()
    session = await begun(sessions, -1)
    source.wait.clear()
    both = [asyncio.create_task(one.fresh(session)) for one in (slow, other)]
    await eventually(lambda: source.asked == 1)
    await asyncio.sleep(0.6)
    assert source.asked == 1
    source.wait.set()
    assert [result.access_expires > time.time() for result in await asyncio.gather(*both)] == [True, True]
    assert source.asked == 1


async def test_the_lease_of_a_gateway_that_died_runs_out(gateway: Any, source: FakeSource, redis_url: str) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    redis.Redis.from_url(redis_url).set(keys.refresh(session.id), "the dead", px=300)
    fresh = await refresher.fresh(session)
    assert fresh.access_expires > time.time()


async def test_a_client_that_leaves_does_not_lose_the_new_refresh_token(gateway: Any, source: FakeSource) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    source.wait.clear()
    request = asyncio.create_task(refresher.fresh(session))
    await eventually(lambda: source.asked == 1)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    source.wait.set()
    await refresher.aclose()
    kept = await sessions.get(session.id)
    assert kept is not None
    assert sessions.tokens(kept).refresh_token == source.valid == "token-1"


@pytest.mark.parametrize("refusal", [Refused("invalid_grant"), Forbidden("no", code="account_disabled")])
async def test_a_refusal_ends_the_session(gateway: Any, source: FakeSource, refusal: Exception) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    source.fault = refusal
    assert await refresher.fresh(session) is None
    assert await sessions.get(session.id) is None


async def test_what_the_new_tokens_say_may_end_the_session(gateway: Any, source: FakeSource) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    source.verdict = Forbidden("too many groups", code="groups_overage")
    assert await refresher.fresh(session) is None


async def test_an_outage_keeps_the_session_to_a_stated_bound_and_the_provider_is_not_flooded(
    gateway: Any, source: FakeSource
) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    source.fault = ProviderAway("away")
    kept = await refresher.fresh(session)
    assert kept.try_after > time.time() + 20
    for _ in range(5):
        assert await refresher.fresh(kept) == kept
    assert source.asked == 1
    old = await begun(sessions, -601)
    with pytest.raises(ProviderAway):
        await refresher.fresh(old)
    assert await sessions.get(old.id) is not None
    source.fault = None
    back = await begun(sessions, -1, try_after=int(time.time()) - 1)
    assert (await refresher.fresh(back)).try_after == 0


async def test_tokens_are_kept_even_where_the_provider_goes_away_right_after(gateway: Any, source: FakeSource) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    source.verdict = ProviderAway("its keys cannot be fetched")
    fresh = await refresher.fresh(session)
    assert sessions.tokens(fresh).refresh_token == source.valid


async def test_an_ended_session_is_not_asked_for(gateway: Any, source: FakeSource) -> None:
    sessions, refresher = gateway()
    session = await begun(sessions, -1)
    await sessions.end(session.id)
    assert await refresher.fresh(session) is None
    assert source.asked == 0
