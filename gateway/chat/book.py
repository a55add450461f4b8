"""People's conversations in Redis: found, listed, changed, forgotten. Knows no HTTP, and nothing of how answers come.

What people write is encrypted here: who reads Redis learns whose conversations there are, how long and when, and with
which model. Everything has an end: that of Redis itself, renewed by use.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from gateway.chat.records import (
    Conversation,
    Message,
    Parameters,
    Summary,
    is_conversation_id,
    new_conversation_id,
)
from gateway.chat.tree import ordered
from gateway.errors import BadRequest, NotFound
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call, Script
from gateway.store.sealing import Sealer

T = TypeVar("T")
_CHUNK = 50
_MESSAGE = "m:"
_SUMMARY = ("title", "model", "created", "updated")

# KEYS 1 the conversation  2 index of its owner; ARGV 1 id  2 now ms  3 life ms  4 most  5... fields and values.
_CREATE = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return 1
"""
)
# KEYS as above; ARGV 1 id  2 now ms, or 0 where nothing is said  3 life ms  4 whose  5... fields and values.
_CHANGE = Script(
    """
if redis.call('HGET', KEYS[1], 'subject') ~= ARGV[4] then return 0 end
if #ARGV > 4 then redis.call('HSET', KEYS[1], unpack(ARGV, 5)) end
if ARGV[2] ~= '0' then
  redis.call('HSET', KEYS[1], 'updated', ARGV[2])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
end
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return 1
"""
)
# KEYS 1 the conversation; ARGV 1 whose  2 most messages  3 most bytes  4... ids of messages and what is kept of them.
# Those that are there already are replaced, whatever their size: an answer is never lost for want of room.
_PUT = Script(
    """
if redis.call('HGET', KEYS[1], 'subject') ~= ARGV[1] then return 0 end
local count, bytes = tonumber(redis.call('HGET', KEYS[1], 'messages') or 0), 0
for i = 4, #ARGV, 2 do
  local was = redis.call('HSTRLEN', KEYS[1], 'm:' .. ARGV[i])
  bytes = bytes + #ARGV[i + 1] - was
  if was == 0 then count = count + 1 end
end
local all = tonumber(redis.call('HGET', KEYS[1], 'bytes') or 0) + bytes
if count > tonumber(redis.call('HGET', KEYS[1], 'messages') or 0) then
  if count > tonumber(ARGV[2]) then return -1 end
  if all > tonumber(ARGV[3]) then return -2 end
end
redis.call('HSET', KEYS[1], 'messages', count, 'bytes', all)
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], 'm:' .. ARGV[i], ARGV[i + 1]) end
return 1
"""
)
# Only where the message is still there: a conversation that was deleted is not brought back.
_REPLACE = Script(
    """
local was = redis.call('HSTRLEN', KEYS[1], 'm:' .. ARGV[1])
if was == 0 then return 0 end
redis.call('HSET', KEYS[1], 'm:' .. ARGV[1], ARGV[2])
redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[2] - was)
return 1
"""
)
_WHOLE = Script("return {redis.call('HGETALL', KEYS[1])}")
# ARGV: the fields that are wanted of each of KEYS.
_FIELDS = Script(
    """
local answer = {}
for index, name in ipairs(KEYS) do answer[index] = redis.call('HMGET', name, unpack(ARGV)) end
return answer
"""
)
# How much KEYS hold. Nothing is counted on the side, which would not hear of a conversation's end by its expiry.
_SIZE = Script(
    """
local all = 0
for _, name in ipairs(KEYS) do
  all = all + tonumber(redis.call('HGET', name, 'bytes') or 0)
  for _, field in ipairs(ARGV) do all = all + redis.call('HSTRLEN', name, field) end
end
return all
"""
)


class Limits(NamedTuple):
    conversations: int  # of a person
    messages: int  # of a conversation
    bytes: int  # of a conversation's messages, as they are kept
    person_bytes: int  # of all that is kept of a person
    life_seconds: float  # from its last use


class Place(NamedTuple):
    """Where a conversation stands in its owner's list, the newest first."""

    updated_ms: int
    id: str


class Book:
    """Raises StoreAway, and NotFound for what is not theirs."""

    def __init__(self, store: Store, sealer: Sealer, limits: Limits) -> None:
        self._store = store
        self._sealer = sealer
        self._limits = limits
        self._life_ms = round(limits.life_seconds * 1000)

    async def create(self, subject: str, title: str, model: str, system: str, parameters: Parameters) -> Conversation:
        """Raises BadRequest where they have too many."""
        made = new_conversation_id()
        now_ms = _now_ms()
        times = {"created": now_ms, "updated": now_ms}
        fields: dict[str, str | int] = {"subject": subject, "head": "", "model": model, **times}
        hidden = self._sealed(made, title=title, system=system, parameters=parameters)
        fields |= hidden
        await self._check_room(subject, hidden.values())
        call = _CREATE.call(
            _names(subject, made), made, now_ms, self._life_ms, self._limits.conversations, *_flat(fields)
        )
        if not await self._store.run(call):
            await self._drop_expired(subject)
            if not await self._store.run(call):
                raise BadRequest(
                    f"You have {self._limits.conversations} conversations here, as many as are kept. Delete some.",
                    code="too_many_conversations",
                )
        return await self.find(subject, made)

    async def find(self, subject: str, conversation_id: str) -> Conversation:
        return self._read(conversation_id, await self._fields(subject, conversation_id))

    async def places(self, subject: str) -> list[Place]:
        """Of all that are theirs, the newest first. Some may have reached their end since."""
        found = await self._store.command("ZRANGE", keys.chats(subject), 0, -1, "REV", "WITHSCORES")
        return [Place(int(float(score)), name.decode()) for name, score in zip(found[::2], found[1::2], strict=True)]

    async def summaries(self, places: Sequence[Place]) -> list[Summary | None]:
        """None for one that has reached its end."""
        if not places:
            return []
        names = tuple(keys.chat(place.id) for place in places)
        rows = await self._store.run(_FIELDS.call(names, *_SUMMARY))
        return [
            self._summary(place.id, row) if row[0] is not None else None
            for place, row in zip(places, rows, strict=True)
        ]

    async def change(self, subject: str, conversation_id: str, **changes: Any) -> None:
        """`title`, `system`, `parameters`, `model` or `head`. Does not make it the newest.

        Raises BadRequest where all of theirs is full.
        """
        if changes.get("system"):
            await self._check_room(subject, self._sealed(conversation_id, system=changes["system"]).values())
        await self._change(subject, conversation_id, 0, changes)

    async def say(self, subject: str, conversation_id: str, messages: Sequence[Message], **changes: Any) -> None:
        """Put messages into it, the last of them its head. Raises BadRequest where it is full, or all of theirs is."""
        sealed = [
            part for message in messages for part in (message.id, self._seal(conversation_id, message.id, message))
        ]
        limits = self._limits
        await self._check_room(subject, sealed[1::2])
        call = _PUT.call((keys.chat(conversation_id),), subject, limits.messages, limits.bytes, *sealed)
        answer = await self._store.run(call)
        if answer == 0:
            raise _not_found(conversation_id)
        if answer < 0:
            most = f"{limits.messages} messages" if answer == -1 else f"{limits.bytes} bytes"
            raise BadRequest(
                f"This conversation would have more than {most}, which is as much as is kept of one. Begin a new one.",
                code="conversation_full",
            )
        await self._change(subject, conversation_id, _now_ms(), changes | {"head": messages[-1].id})

    def replacing(self, conversation_id: str, message: Message) -> Call:
        """The call that puts what became of a message in its place; its answer is 0 where the message is gone."""
        sealed = self._seal(conversation_id, message.id, message)
        return _REPLACE.call((keys.chat(conversation_id),), message.id, sealed)

    async def whole(self, places: Sequence[Place]) -> AsyncIterator[tuple[Place, Conversation, int]]:
        """One after another, each with the bytes that were read for it; what has reached its end is left out."""
        for place in places:
            (fields,) = await self._store.run(_WHOLE.call((keys.chat(place.id),)))
            if fields:
                yield place, self._read(place.id, _paired(fields)), sum(map(len, fields))

    async def _fields(self, subject: str, conversation_id: str) -> dict[str, bytes]:
        if not is_conversation_id(conversation_id):
            raise _not_found(conversation_id)
        (found,) = await self._store.run(_WHOLE.call((keys.chat(conversation_id),)))
        fields = _paired(found)
        if fields.get("subject") != subject.encode():
            raise _not_found(conversation_id)
        return fields

    async def _change(self, subject: str, conversation_id: str, now_ms: int, changes: Mapping[str, Any]) -> None:
        plain = {name: changes[name] for name in ("model", "head") if name in changes}
        hidden = {name: value for name, value in changes.items() if name not in plain}
        fields = _flat(plain | self._sealed(conversation_id, **hidden))
        names = _names(subject, conversation_id)
        if not await self._store.run(_CHANGE.call(names, conversation_id, now_ms, self._life_ms, subject, *fields)):
            raise _not_found(conversation_id)

    async def _check_room(self, subject: str, sealed: Iterable[str]) -> None:
        """What comes at once may pass by a message each; an answer's own words are never refused."""
        new, most = sum(map(len, sealed)), self._limits.person_bytes
        names = tuple(keys.chat(place.id) for place in await self.places(subject))
        if new and names and await self._store.run(_SIZE.call(names, "title", "system", "parameters")) + new > most:
            raise BadRequest(
                f"Your conversations would take up more than {most} bytes, which is as much as is kept of one person. "
                "Delete some.",
                code="conversations_full",
            )

    async def _drop_expired(self, subject: str) -> None:
        """From the index, which does not hear of a conversation's end."""
        places = await self.places(subject)
        for start in range(0, len(places), _CHUNK):
            some = places[start : start + _CHUNK]
            gone = [place.id for place, found in zip(some, await self.summaries(some), strict=True) if found is None]
            if gone:
                await self._store.command("ZREM", keys.chats(subject), *gone)

    def _sealed(self, conversation_id: str, **values: Any) -> dict[str, str]:
        return {name: self._seal(conversation_id, name, value) for name, value in values.items()}

    def _seal(self, conversation_id: str, name: str, value: Any) -> str:
        return self._sealer.seal(msgspec.json.encode(value), f"{conversation_id}/{name}")

    def _open(self, conversation_id: str, name: str, sealed: bytes | None, kind: type[T]) -> T | None:
        """None for what was sealed under another server key: it is lost, and the rest is still shown."""
        plain = self._sealer.open((sealed or b"").decode(), f"{conversation_id}/{name}")
        return None if plain is None else msgspec.json.decode(plain, type=kind)

    def _summary(self, conversation_id: str, row: Sequence[bytes | None]) -> Summary:
        title, model, created, updated = row
        return Summary(
            id=conversation_id,
            title=self._open(conversation_id, "title", title, str) or "",
            model=(model or b"").decode(),
            created=int(created or 0) // 1000,
            updated=int(updated or 0) // 1000,
        )

    def _read(self, conversation_id: str, fields: Mapping[str, bytes]) -> Conversation:
        names = [name for name in fields if name.startswith(_MESSAGE)]
        found = [self._open(conversation_id, name.removeprefix(_MESSAGE), fields[name], Message) for name in names]
        return Conversation(
            **msgspec.structs.asdict(self._summary(conversation_id, [fields.get(name) for name in _SUMMARY])),
            system=self._open(conversation_id, "system", fields.get("system"), str) or "",
            parameters=self._open(conversation_id, "parameters", fields.get("parameters"), Parameters) or Parameters(),
            head=fields.get("head", b"").decode() or None,
            messages=ordered(message for message in found if message is not None),
        )


def _names(subject: str, conversation_id: str) -> tuple[str, str]:
    return keys.chat(conversation_id), keys.chats(subject)


def _flat(fields: Mapping[str, str | int]) -> list[str | int]:
    return [part for pair in fields.items() for part in pair]


def _paired(found: Sequence[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(found[::2], found[1::2], strict=True)}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _not_found(conversation_id: str) -> NotFound:
    return NotFound(f"You have no conversation {conversation_id[:64]!r}.", param="id")
