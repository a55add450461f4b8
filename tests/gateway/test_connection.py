"""The shared connection to Redis: answers find their askers, whoever gives up, and however the server ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import hiredis
import pytest

from gateway.settings.redis_url import parse
from gateway.store import connection as wire
from gateway.store.connection import Connection
from gateway.store.redis import Store
from gateway.store.scripts import Script
from tests.conftest import REDIS_TIMEOUT
from tests.gateway.conftest import start_valkey


async def connect(url: str) -> Connection:
    at = parse(url)
    return await wire.connect(at.nodes[0], at.login, Connection)


@pytest.fixture
async def connection(redis_url: str) -> AsyncIterator[Connection]:
    connection = await connect(redis_url)
    yield connection
    connection.close()
    await asyncio.sleep(0)


async def test_answers_come_to_those_who_asked(connection: Connection) -> None:
    answers = await asyncio.gather(*(connection.call("ECHO", str(number)) for number in range(1000)))
    assert answers == [str(number).encode() for number in range(1000)]


async def test_giving_up_disturbs_no_one_else(connection: Connection) -> None:
    given_up = connection.call("ECHO", "a")
    kept = connection.call("ECHO", "b")
    given_up.cancel()
    assert await kept == b"b"
    assert await connection.call("ECHO", "c") == b"c"


async def test_an_error_answer_is_a_value(connection: Connection) -> None:
    assert isinstance(await connection.call("NOSUCH"), hiredis.ReplyError)
    assert await connection.call("PING") == b"PONG"


async def test_what_is_in_flight_fails_when_the_connection_ends(connection: Connection) -> None:
    answer = connection.call("BLPOP", "nothing", 0)
    await asyncio.sleep(0.01)
    connection.close()
    with pytest.raises(ConnectionResetError):
        await answer
    with pytest.raises(ConnectionResetError):
        await connection.call("PING")


async def test_of_several_in_one_round_trip_none_is_reported_as_forgotten(connection: Connection) -> None:
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    answers = [connection.call("BLPOP", "nothing", 0) for _ in range(3)]
    await asyncio.sleep(0.01)
    connection.close()
    with pytest.raises(ConnectionResetError):
        await answers[0]
    answers += [connection.call("PING")]
    del answers
    gc.collect()
    assert reported == []


async def test_the_database_of_the_url_is_used(redis_url: str) -> None:
    here, there = await connect(redis_url), await connect(redis_url + "?db=3")
    await there.call("SET", "a", 1)
    assert await here.call("GET", "a") is None
    for connection in (here, there):
        connection.close()
    await asyncio.sleep(0)


async def test_a_password_is_sent_and_a_wrong_one_told(tmp_path: Path) -> None:
    process, url = start_valkey(tmp_path)
    opened = await connect(url)
    await opened.call("CONFIG", "SET", "requirepass", "s3cret")
    known = await connect(url.replace("unix://", "unix://:s3cret@"))
    assert await known.call("PING") == b"PONG"
    with pytest.raises(ConnectionError, match="AUTH"):
        await connect(url.replace("unix://", "unix://:wrong@"))
    for connection in (opened, known):
        connection.close()
    await asyncio.sleep(0)
    process.kill()
    process.wait()


async def test_only_the_scripts_that_redis_has_forgotten_are_sent_whole(redis_url: str) -> None:
    store = Store(redis_url, REDIS_TIMEOUT)
    known, unknown = Script("return ARGV[1]"), Script("return {KEYS[1], ARGV[1]}")
    assert await store.run(known.call(("{t}a",), "x")) == b"x"
    assert await store.run_all(known.call((), "y"), unknown.call(("{t}a",), 5)) == [b"y", [b"{t}a", b"5"]]
    await store.aclose()
