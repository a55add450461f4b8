"""Sessions in Redis: what is kept of them, how long they live, how they end."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
import redis

from gateway.identity.sessions import Arrival, Session, Sessions, Tokens
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.sealing import Sealer

SERVER_KEY = b"k" * 32
TOKENS = Tokens("an-id-token", "a-refresh-token")


def arrival(user: str = "usr_a", **fields: object) -> Arrival:
    base = Arrival(user, "https://idp.example", "192.0.2.1", "Mozilla/5.0", TOKENS, "sid-1", 0)
    return base._replace(**fields)


@pytest.fixture
def sessions(store: Store) -> Sessions:
    return Sessions(store, Sealer(SERVER_KEY, "tokens of sessions"), 3600, 86_400)


async def test_a_session_is_found_by_its_token_and_by_no_other(sessions: Sessions) -> None:
    token, session = await sessions.begin(arrival())
    assert len(token) >= 43
    assert await sessions.find(token) == session
    assert await sessions.find(token[:-1] + ("a" if token[-1] != "a" else "b")) is None
    assert await sessions.find(session.id) is None


async def test_redis_knows_neither_the_browsers_token_nor_the_providers(sessions: Sessions, redis_url: str) -> None:
    token, session = await sessions.begin(arrival())
    server = redis.Redis.from_url(redis_url)
    held = b" ".join(server.keys("*")) + server.get(keys.session(session.id))
    for secret in (token, TOKENS.id_token, TOKENS.refresh_token):
        assert secret.encode() not in held
    assert sessions.tokens(session) == TOKENS
    assert "sealed" not in session.public()


async def test_sealed_tokens_open_only_in_their_own_session_and_with_their_own_key(
    sessions: Sessions, store: Store
) -> None:
    _, mine = await sessions.begin(arrival())
    _, other = await sessions.begin(arrival())
    assert sessions.tokens(msgspec.structs.replace(other, sealed=mine.sealed)) == Tokens()
    assert Sessions(store, Sealer(b"x" * 32, "tokens of sessions"), 60, 60).tokens(mine) == Tokens()
    assert sessions.tokens(msgspec.structs.replace(mine, sealed="not base64!")) == Tokens()
    assert sessions.tokens(msgspec.structs.replace(mine, sealed="AAAA")) == Tokens()


@pytest.mark.parametrize(("idle", "absolute", "expected"), [(3600, 60, 60), (60, 3600, 60)])
async def test_a_session_lives_to_its_idle_or_its_absolute_end(
    store: Store, redis_url: str, idle: float, absolute: float, expected: float
) -> None:
    _, session = await Sessions(store, Sealer(SERVER_KEY, "tokens of sessions"), idle, absolute).begin(arrival())
    left = redis.Redis.from_url(redis_url).pttl(keys.session(session.id)) / 1000
    assert expected - 5 < left <= expected


async def test_use_puts_off_the_idle_end_and_never_the_absolute_one(store: Store, redis_url: str) -> None:
    server = redis.Redis.from_url(redis_url)
    sessions = Sessions(store, Sealer(SERVER_KEY, "tokens of sessions"), 600, 1000)
    _, session = await sessions.begin(arrival())
    earlier = msgspec.structs.replace(session, seen=session.seen - 300)
    assert await sessions.replace(session, earlier)
    server.pexpire(keys.session(session.id), 1000)
    used = await sessions.used(earlier, "192.0.2.7")
    assert used.seen >= session.seen
    assert used.address == "192.0.2.7"
    assert server.pttl(keys.session(session.id)) > 500_000
    old = msgspec.structs.replace(used, ends=int(time.time()) + 20, seen=used.seen - 300)
    assert await sessions.replace(used, old)
    await sessions.used(old, "192.0.2.7")
    assert server.pttl(keys.session(session.id)) <= 20_000


async def test_use_within_the_same_minute_writes_nothing(sessions: Sessions) -> None:
    _, session = await sessions.begin(arrival())
    assert await sessions.used(session, session.address) is session


async def test_a_change_never_brings_back_a_session_that_has_ended(sessions: Sessions) -> None:
    token, session = await sessions.begin(arrival())
    await sessions.end(session.id)
    assert not await sessions.replace(session, msgspec.structs.replace(session, seen=1))
    assert await sessions.find(token) is None


async def test_of_two_changes_to_the_same_state_one_wins(sessions: Sessions) -> None:
    _, session = await sessions.begin(arrival())
    changes = [msgspec.structs.replace(session, seen=second) for second in (1, 2)]
    assert sorted(await asyncio.gather(*(sessions.replace(session, change) for change in changes))) == [False, True]


async def test_sessions_are_listed_page_by_page_without_those_that_ran_out(sessions: Sessions, redis_url: str) -> None:
    made = sorted([(await sessions.begin(arrival(f"usr_{n % 2}")))[1].id for n in range(7)])
    redis.Redis.from_url(redis_url).delete(keys.session(made[1]))
    living = [made[0], *made[2:]]
    first = await sessions.list(limit=3)
    assert [session.id for session in first] == living[:3]
    rest = await sessions.list(after=first[-1].id, limit=100)
    assert [session.id for session in rest] == living[3:]
    assert len(await sessions.of_user("usr_0")) + len(await sessions.of_user("usr_1")) == 6


async def test_ending_all_sessions_of_a_person_ends_no_other_persons(sessions: Sessions) -> None:
    for user in ("usr_a", "usr_a", "usr_b"):
        await sessions.begin(arrival(user))
    assert await sessions.end_all("usr_a") == 2
    assert await sessions.end_all("usr_a") == 0
    assert [session.user for session in await sessions.list()] == ["usr_b"]


async def test_sessions_are_found_by_the_providers_name_for_them(sessions: Sessions) -> None:
    _, mine = await sessions.begin(arrival(sid="x"))
    await sessions.begin(arrival(sid="y"))
    await sessions.begin(arrival(sid="x", issuer="https://other.example"))
    assert await sessions.of_sid("https://idp.example", "x") == [mine]


async def test_the_end_of_a_session_is_told(sessions: Sessions, redis_url: str) -> None:
    _, session = await sessions.begin(arrival())
    listener = redis.Redis.from_url(redis_url).pubsub(ignore_subscribe_messages=True)
    listener.subscribe(keys.CHANGED)
    listener.get_message(timeout=20)
    await sessions.end(session.id)
    message = listener.get_message(timeout=20)
    listener.close()
    assert message
    assert message["data"] == f"session:{session.id}".encode()


async def test_a_person_has_a_bounded_number_of_sessions_and_the_oldest_go(store: Store, redis_url: str) -> None:
    sessions = Sessions(store, Sealer(SERVER_KEY, "tokens of sessions"), 60, 3600)
    _, first = await sessions.begin(arrival())
    redis.Redis.from_url(redis_url).zincrby(keys.sessions("user:usr_a"), -10, first.id)
    made = [(await sessions.begin(arrival()))[1].id for _ in range(50)]
    assert {session.id for session in await sessions.of_user("usr_a")} == set(made)


async def test_indexes_do_not_keep_what_ran_out(store: Store, redis_url: str) -> None:
    server = redis.Redis.from_url(redis_url)
    sessions = Sessions(store, Sealer(SERVER_KEY, "tokens of sessions"), 60, 60)
    _, gone = await sessions.begin(arrival())
    for index in ("ends", "user:usr_a"):
        server.zadd(keys.sessions(index), {gone.id: 1})
    server.delete(keys.session(gone.id))
    _, here = await sessions.begin(arrival())
    for index in ("all", "ends", "user:usr_a"):
        assert server.zrange(keys.sessions(index), 0, -1) == [here.id.encode()]
    assert 0 < server.ttl(keys.sessions("user:usr_a")) <= 60


async def test_a_browsers_own_words_are_bounded_and_printable(sessions: Sessions) -> None:
    session: Session = (await sessions.begin(arrival(agent="Moz\x1b[31m\n" + "x" * 10_000)))[1]
    assert len(session.agent) <= 256
    assert session.agent.isprintable()
