"""The way to whoever takes our writes now: the one server, the master that Sentinels name, the owner of our slot.

Asked anew for every connection, so that a failover is followed by connecting again. All that are named are asked at the
same time: one that does not answer keeps nobody.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

import hiredis

from gateway.settings.redis_url import Node, RedisAt
from gateway.store import keys
from gateway.store.connection import AnyConnection, Connection, connect

T = TypeVar("T")

_MOST_HOPS = 4
_MOVED = re.compile(r"MOVED \d+ (.*):(\d+)")


async def find(at: RedisAt, kind: type[AnyConnection], patience: float) -> AnyConnection:
    """A connection to it. `patience`: seconds in which Sentinels or nodes have to answer. Raises OSError; the caller
    bounds the whole time.
    """
    if at.kind == "sentinel":
        return await _master(at, kind, patience)
    if at.kind == "cluster":
        (owner,) = await _answers((_owner(at, node) for node in at.nodes), 1, patience)
        return await connect(owner, at.login, kind)
    return await connect(at.nodes[0], at.login, kind)


async def _master(at: RedisAt, kind: type[AnyConnection], patience: float) -> AnyConnection:
    """As https://valkey.io/topics/sentinel-clients has it: whoever is named has to call itself the master."""
    words = await _answers((_word(at, sentinel) for sentinel in at.nodes), len(at.nodes) // 2 + 1, patience)
    named = max(words, key=lambda word: word.epoch).node
    connection = await connect(named, at.login, kind)
    role = await connection.call("ROLE")
    if isinstance(role, Exception) or role[0] != b"master":
        connection.close()
        raise ConnectionError(f"Sentinels name {named} as the master of {at.master}, but it is not one: {role!r}")
    return connection


class _Word(NamedTuple):
    """What a Sentinel says: the higher the epoch, the newer."""

    epoch: int
    node: Node


async def _word(at: RedisAt, sentinel: Node) -> _Word:
    told = await _one_answer(at, sentinel, "SENTINEL", "MASTER", at.master)
    if isinstance(told, hiredis.ReplyError):
        raise ConnectionError(f"the Sentinel at {sentinel} does not name the master of {at.master}: {told}")
    found = dict(zip(told[::2], told[1::2], strict=True))
    return _Word(int(found[b"config-epoch"]), Node(found[b"ip"].decode(), int(found[b"port"])))


async def _owner(at: RedisAt, node: Node) -> Node:
    """Any node of a Cluster knows who has a slot, and says so with MOVED to whoever asks it for a key there."""
    for _ in range(_MOST_HOPS):
        answer = await _one_answer(at, node, "EXISTS", keys.TAG)
        if not isinstance(answer, hiredis.ReplyError):
            return node
        if (moved := _MOVED.match(str(answer))) is None:
            raise ConnectionError(f"the Cluster's node at {node} does not tell who has the slot: {answer}")
        node = Node(moved[1] or node.host, int(moved[2]))  # without a host it means its own
    raise ConnectionError(f"the Cluster's nodes do not agree who has the slot of {keys.TAG}")


async def _one_answer(at: RedisAt, node: Node, *command: str) -> Any:
    connection = await connect(node, at.sentinels if at.kind == "sentinel" else at.login, Connection)
    try:
        return await connection.call(*command)
    finally:
        connection.close()


async def _answers(asked: Iterable[Coroutine[Any, Any, T]], enough: int, patience: float) -> list[T]:
    """The first so many, or fewer where no more come in time. Raises OSError where none does."""
    tasks = [asyncio.create_task(one) for one in asked]
    found: list[T] = []
    fault: OSError | None = None
    try:
        async with asyncio.timeout(patience):
            for answer in asyncio.as_completed(tasks):
                try:
                    found.append(await answer)
                except OSError as error:
                    fault = error
                if len(found) == enough:
                    break
    except TimeoutError as late:
        fault = fault or late
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not found and fault is not None:
        raise fault
    return found
