"""Who is asked: the master that most Sentinels name, the owner of the slot. The servers are scripted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import hiredis
import pytest

from gateway.settings.redis_url import parse
from gateway.store.connection import Connection
from gateway.store.finding import find

Said = dict[str, bytes | None]  # by the command's first word; None: nothing is said, ever
Serve = Callable[[Said], Awaitable[int]]
IS_MASTER = b"*1\r\n$6\r\nmaster\r\n"
IS_REPLICA = b"*1\r\n$5\r\nslave\r\n"
PATIENCE = 5.0


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server that says these things; its port."""
    async with AsyncExitStack() as stack:

        async def serve(said: Said) -> int:
            server = await asyncio.start_server(lambda *both: _talk(said, *both), "127.0.0.1", 0)
            stack.callback(server.close)
            return int(server.sockets[0].getsockname()[1])

        yield serve


async def _talk(said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parser: Any = hiredis.Reader()
    while data := await reader.read(4096):
        parser.feed(data)
        while (command := parser.gets()) is not False:
            writer.write(said[command[0].decode()] or b"")
    writer.close()


def names(port: int, epoch: int = 0) -> bytes:
    """What a Sentinel says of its master."""
    fields = ("ip", "127.0.0.1", "port", str(port), "config-epoch", str(epoch))
    return f"*{len(fields)}\r\n".encode() + b"".join(f"${len(one)}\r\n{one}\r\n".encode() for one in fields)


async def found(kind: str, ports: list[int], patience: float = PATIENCE) -> Any:
    """What the one who is found answers to ECHO."""
    url = f"redis+{kind}://{','.join(f'127.0.0.1:{port}' for port in ports)}"
    connection = await find(parse(url + "/main" * (kind == "sentinel")), Connection, patience)
    answer = await connection.call("ECHO")
    connection.close()
    await asyncio.sleep(0)
    return answer


async def test_the_newest_word_of_most_sentinels_holds(serve: Serve) -> None:
    old, new = (
        await serve({"ROLE": IS_MASTER, "ECHO": b"+old\r\n"}),
        await serve({"ROLE": IS_MASTER, "ECHO": b"+new\r\n"}),
    )
    sentinels = [await serve({"SENTINEL": names(old, 3)}), await serve({"SENTINEL": names(new, 4)})]
    assert await found("sentinel", sentinels) == b"new"
    assert await found("sentinel", sentinels[::-1]) == b"new"


async def test_a_sentinel_that_says_nothing_keeps_nobody_and_one_that_refuses_neither(serve: Serve) -> None:
    master = await serve({"ROLE": IS_MASTER, "ECHO": b"+here\r\n"})
    good, silent = await serve({"SENTINEL": names(master)}), await serve({"SENTINEL": None})
    unknown = await serve({"SENTINEL": b"-ERR No such master with that name\r\n"})
    began = time.monotonic()
    assert await found("sentinel", [silent, good, await serve({"SENTINEL": names(master)})], 60) == b"here"
    assert time.monotonic() - began < 30
    assert await found("sentinel", [silent, unknown, good], 0.5) == b"here"  # a minority, when no more say anything


async def test_who_is_named_and_is_no_master_is_not_taken(serve: Serve) -> None:
    sentinel = await serve({"SENTINEL": names(await serve({"ROLE": IS_REPLICA}))})
    with pytest.raises(ConnectionError, match="as the master of main, but it is not one"):
        await found("sentinel", [sentinel])


async def test_without_any_answer_the_fault_is_told(serve: Serve) -> None:
    unknown = await serve({"SENTINEL": b"-ERR No such master with that name\r\n"})
    with pytest.raises(ConnectionError, match="does not name the master of main: ERR No such master"):
        await found("sentinel", [unknown])
    with pytest.raises(TimeoutError):
        await found("sentinel", [await serve({"SENTINEL": None})], 0.1)


async def test_whoever_has_the_slot_is_found_by_any_node(serve: Serve) -> None:
    owner = await serve({"EXISTS": b":0\r\n", "ECHO": b"+owner\r\n"})
    other = await serve({"EXISTS": f"-MOVED 1234 127.0.0.1:{owner}\r\n".encode()})
    further = await serve({"EXISTS": f"-MOVED 1234 :{other}\r\n".encode()})
    down = await serve({"EXISTS": b"-CLUSTERDOWN The cluster is down\r\n"})
    for nodes in ([owner], [other], [further], [down, further]):
        assert await found("cluster", nodes) == b"owner"


async def test_nodes_that_send_to_each_other_for_ever_are_left(serve: Serve) -> None:
    said: Said = {}
    node = await serve(said)
    said["EXISTS"] = f"-MOVED 1234 127.0.0.1:{node}\r\n".encode()
    with pytest.raises(ConnectionError, match="do not agree who has the slot"):
        await found("cluster", [node])
