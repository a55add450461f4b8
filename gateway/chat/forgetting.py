"""Conversations that are deleted, with all that readers of their answers were told. Opens nothing: needs no key."""

from __future__ import annotations

from gateway.chat.journal import names
from gateway.chat.records import is_conversation_id
from gateway.errors import NotFound
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

_TOGETHER = 100
_MESSAGE = "m:"

# KEYS 1 the conversation; ARGV 1 whose. Names of its fields, or nothing where it is not theirs.
_LOOK = Script(
    """
if redis.call('HGET', KEYS[1], 'subject') ~= ARGV[1] then return {} end
return redis.call('HKEYS', KEYS[1])
"""
)
# KEYS 1 the conversation  2 index of its owner; ARGV 1 whose  2 id.
_DELETE = Script(
    """
redis.call('ZREM', KEYS[2], ARGV[2])
if redis.call('HGET', KEYS[1], 'subject') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""
)


class Forgetting:
    """Answers that are being written stop as their writer hears of it. Raises StoreAway."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def one(self, subject: str, conversation_id: str) -> None:
        """Raises NotFound for what is not theirs."""
        if not is_conversation_id(conversation_id) or not await self._delete(subject, conversation_id):
            raise NotFound(f"You have no conversation {conversation_id[:64]!r}.", param="id")

    async def all_of(self, subject: str) -> None:
        """Those too that are begun meanwhile."""
        while found := await self._store.command("ZRANGE", keys.chats(subject), 0, _TOGETHER - 1):
            for conversation_id in found:
                await self._delete(subject, conversation_id.decode())

    async def _delete(self, subject: str, conversation_id: str) -> bool:
        """What was told first: while the conversation is there, this can be done again."""
        fields = await self._store.run(_LOOK.call((keys.chat(conversation_id),), subject))
        told = [field.decode().removeprefix(_MESSAGE) for field in fields if field.startswith(_MESSAGE.encode())]
        for start in range(0, len(told), _TOGETHER):
            some = told[start : start + _TOGETHER]
            await self._store.command("UNLINK", *(name for answer_id in some for name in names(answer_id)))
        both = keys.chat(conversation_id), keys.chats(subject)
        await self._store.run(_DELETE.call(both, subject, conversation_id))
        return bool(fields)
