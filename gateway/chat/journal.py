"""What the readers of an answer are told, kept in Redis while it is written: so any gateway can tell it again.

One gateway writes, for as long as its lease lives. Knows nothing of conversations, nor of what is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gateway.chat.events import Event
from gateway.chat.records import is_message_id
from gateway.errors import NotFound
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call, Script
from gateway.store.sealing import Sealer

# Read at once: a reader who comes late gets the rest with the next call.
_MOST_EVENTS = 500

# KEYS of all: 1 the answer  2 its events  3 its lease.
# ARGV 1 who writes  2 lease ms  3 life ms  4 whose  5 conversation. 0: somebody else writes it.
_OPEN = Script(
    """
local writer = redis.call('GET', KEYS[3])
if writer and writer ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'writer', ARGV[1], 'subject', ARGV[4], 'conversation', ARGV[5])
end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'read', now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return 1
"""
)
# ARGV 1 who writes  2 lease ms, 0 with the last events  3 life ms  4 1 while somebody reads here  5 number of the first
# 6... events. Answers how many there are (-1: they are no longer this writer's), whether to stop, and ms unread.
_WRITE = Script(
    """
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then return {-1, 0, 0} end
local there = redis.call('LLEN', KEYS[2])
for i = 6, #ARGV do
  if tonumber(ARGV[5]) + i - 6 == there + 1 then there = redis.call('RPUSH', KEYS[2], ARGV[i]) end
end
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'read', ms) end
if ARGV[2] == '0' then
  redis.call('HSET', KEYS[1], 'ended', 1)
  redis.call('DEL', KEYS[3])
else
  redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
end
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return {there, tonumber(redis.call('HGET', KEYS[1], 'stop') or 0), ms - redis.call('HGET', KEYS[1], 'read')}
"""
)
# ARGV 1 whose  2 number of the first  3 most.
_READ = Script(
    """
if redis.call('HGET', KEYS[1], 'subject') ~= ARGV[1] then return {} end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'read', now[1] * 1000 + math.floor(now[2] / 1000))
local first = tonumber(ARGV[2]) - 1
return {
  redis.call('EXISTS', KEYS[3]),
  tonumber(redis.call('HGET', KEYS[1], 'ended') or 0),
  redis.call('HGET', KEYS[1], 'conversation'),
  redis.call('LRANGE', KEYS[2], first, first + ARGV[3] - 1),
}
"""
)
_STOP = Script(
    """
if redis.call('HGET', KEYS[1], 'subject') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'stop', 1)
return 1
"""
)


class Written(NamedTuple):
    there: int  # how many events; -1: the answer is no longer this writer's to write
    stop: bool  # somebody asked for it
    unread_ms: int


class Part(NamedTuple):
    """Of an answer: some of its events, and whether more may come."""

    alive: bool  # a gateway writes it
    ended: bool  # it has come to its end, though perhaps not with these events
    conversation: str  # empty: of none that is kept
    events: list[Event]


class Journal:
    """Raises StoreAway. `life_seconds`: of what is written, from its last line on."""

    def __init__(self, store: Store, sealer: Sealer, lease_seconds: float) -> None:
        self._store = store
        self._sealer = sealer
        self._lease_ms = round(lease_seconds * 1000)

    async def open(self, answer_id: str, writer: str, subject: str, conversation: str, life_seconds: float) -> bool:
        """False: somebody writes it already."""
        life_ms = round(life_seconds * 1000)
        call = _OPEN.call(names(answer_id), writer, self._lease_ms, life_ms, subject, conversation)
        return bool(await self._store.run(call))

    def writing(
        self,
        answer_id: str,
        writer: str,
        first: int,
        events: Sequence[Event],
        *,
        read_here: bool,
        life_seconds: float,
        last: bool,
    ) -> Call:
        """The call that writes events from number `first` on, and renews the lease; its answer goes to `written`."""
        sealed = [self._seal(answer_id, first + index, told) for index, told in enumerate(events)]
        lease_ms = 0 if last else self._lease_ms
        arguments = (writer, lease_ms, round(life_seconds * 1000), int(read_here), first)
        return _WRITE.call(names(answer_id), *arguments, *sealed)

    async def read(self, subject: str, answer_id: str, first: int) -> Part:
        """From number `first` on; that somebody reads is noted. Raises NotFound for what is gone or not theirs."""
        found = None
        if is_message_id(answer_id):
            found = await self._store.run(_READ.call(names(answer_id), subject, first, _MOST_EVENTS))
        if not found:
            raise NotFound("This answer is no longer being told. Look at its conversation.", param="id")
        alive, ended, conversation, sealed = found
        events = [self._open(answer_id, first + index, one) for index, one in enumerate(sealed)]
        return Part(bool(alive), bool(ended), conversation.decode(), events)

    async def stop(self, subject: str, answer_id: str) -> None:
        """Whoever writes it hears of it with the next line. Raises NotFound."""
        if not is_message_id(answer_id) or not await self._store.run(_STOP.call(names(answer_id), subject)):
            raise NotFound("There is no such answer of yours, or it ended a while ago.", param="id")

    async def forget(self, answer_id: str) -> None:
        """Whoever writes it stops."""
        await self._store.command("UNLINK", *names(answer_id))

    def _seal(self, answer_id: str, number: int, told: Event) -> str:
        return self._sealer.seal(msgspec.json.encode(told), f"{answer_id}/{number}")

    def _open(self, answer_id: str, number: int, sealed: bytes) -> Event:
        plain = self._sealer.open(sealed.decode(), f"{answer_id}/{number}")
        if plain is None:  # by a gateway with another server key, which does not start beside this one
            raise NotFound("This answer cannot be read here.", param="id")
        return msgspec.json.decode(plain, type=Event)


def written(answer: Sequence[int]) -> Written:
    there, stop, unread_ms = answer
    return Written(there, bool(stop), unread_ms)


def names(answer_id: str) -> tuple[str, str, str]:
    return keys.answer(answer_id), keys.answer_events(answer_id), keys.answer_lease(answer_id)
