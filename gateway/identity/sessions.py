"""Browser sessions in Redis: begun, found, listed, ended. Knows no cookie, no provider and no HTTP.

A session is kept under a hash of the browser's token. The hash is its public id too: it leads to no token.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script
from gateway.store.sealing import Sealer

# No person has more browsers than this; whoever signs in in a loop must not fill Redis.
_MOST_OF_A_USER = 50
_LONGEST_AGENT = 256

# KEYS 1 session  2 all  3 ends  4... indexes; ARGV 1 id  2 data  3 ttl ms  4 end.
# Ids of sessions that were never ended but ran out go from the indexes here, a few at a time.
_BEGIN = Script(
    """
local now = redis.call('TIME')[1]
for _, old in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[2], old)
  redis.call('ZREM', KEYS[3], old)
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
for i = 4, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  redis.call('ZADD', KEYS[i], ARGV[4], ARGV[1])
  redis.call('EXPIREAT', KEYS[i], ARGV[4], 'NX')
  redis.call('EXPIREAT', KEYS[i], ARGV[4], 'GT')
end
return 1
"""
)
# KEYS as above; ARGV 1 id  2 channel  3 message.
_END = Script(
    """
redis.call('DEL', KEYS[1])
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
"""
)
# KEYS 1 session; ARGV 1 before  2 after  3 ttl ms. Never brings back a session that has ended.
_REPLACE = Script(
    """
local now = redis.call('GET', KEYS[1])
if now == ARGV[2] then return 1 end
if now ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
)


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the provider gave. Leaves this process only sealed."""

    id_token: str = ""
    refresh_token: str = ""


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As stored. Times are Unix seconds."""

    id: str
    user: str  # a User's id
    issuer: str
    sid: str = ""  # the provider's name for its own session
    created: int
    seen: int  # last used, to within a minute
    ends: int  # used or not
    address: str = ""  # where it was last used
    agent: str = ""  # the browser, in its own words
    access_expires: int = 0  # when the provider's word has to be renewed; 0: never
    try_after: int = 0  # the provider was away; ask it again then
    sealed: str = ""  # Tokens

    def public(self) -> dict[str, Any]:
        """What an admin may see: nothing that opens anything."""
        names = ("id", "user", "issuer", "created", "seen", "ends", "address", "agent")
        return {name: getattr(self, name) for name in names}


# Sessions has a method of the built-in's name.
Found = list[Session]


class Arrival(NamedTuple):
    """What is known when a session begins."""

    user: str
    issuer: str
    address: str
    agent: str
    tokens: Tokens = Tokens()
    sid: str = ""
    access_expires: int = 0


class Sessions:
    """Raises StoreAway."""

    def __init__(self, store: Store, sealer: Sealer, idle_seconds: float, seconds: float) -> None:
        self._store = store
        self._sealer = sealer
        self._idle = idle_seconds
        self._seconds = seconds
        self._step = min(60.0, idle_seconds / 10)

    async def begin(self, arrival: Arrival) -> tuple[str, Session]:
        """A new session and the token that opens it, which is kept nowhere."""
        token, now = secrets.token_urlsafe(32), int(time.time())
        session_id = id_of(token)
        session = Session(
            id=session_id,
            user=arrival.user,
            issuer=arrival.issuer,
            sid=arrival.sid,
            created=now,
            seen=now,
            ends=now + int(self._seconds),
            address=arrival.address,
            agent=_printable(arrival.agent),
            access_expires=arrival.access_expires,
            sealed=self.seal(session_id, arrival.tokens),
        )
        await self._bound(arrival.user)
        names = _keys_of(session)
        await self._store.run(_BEGIN.call(names, session_id, _encode(session), self._ttl(session), session.ends))
        return token, session

    async def find(self, token: str) -> Session | None:
        return await self.get(id_of(token))

    async def get(self, session_id: str) -> Session | None:
        data = await self._store.command("GET", keys.session(session_id))
        return None if data is None else _decode(data)

    async def used(self, session: Session, address: str) -> Session:
        """Note that the session is in use, at most once a minute."""
        now = int(time.time())
        if now - session.seen < self._step and address == session.address:
            return session
        after = msgspec.structs.replace(session, seen=now, address=address)
        return after if await self.replace(session, after) else session

    async def replace(self, before: Session, after: Session) -> bool:
        """False: somebody else was quicker, or the session has ended."""
        name = (keys.session(before.id),)
        return bool(await self._store.run(_REPLACE.call(name, _encode(before), _encode(after), self._ttl(after))))

    async def list(self, after: str = "", limit: int = 100) -> Found:
        """In order of id, from the one behind `after`."""
        found: Found = []
        while len(found) < limit:
            start = f"({after}" if after else "-"
            names = await self._store.command(
                "ZRANGE", keys.sessions("all"), start, "+", "BYLEX", "LIMIT", 0, limit - len(found)
            )
            ids = [name.decode() for name in names]
            if not ids:
                break
            after = ids[-1]
            found += await self._living(ids, ("all", "ends"))
        return found

    async def of_user(self, user_id: str) -> Found:
        """Oldest first."""
        return await self._indexed(_of_user(user_id))

    async def of_sid(self, issuer: str, sid: str) -> Found:
        return await self._indexed(_of_sid(issuer, sid))

    async def end(self, session_id: str) -> Session | None:
        """What was ended; None where there was no such session. Told to every gateway."""
        session = await self.get(session_id)
        if session is not None:
            message = f"session:{session_id}"
            await self._store.run(_END.call(_keys_of(session), session_id, keys.CHANGED, message))
        return session

    async def end_all(self, user_id: str) -> int:
        """How many there were."""
        sessions = await self.of_user(user_id)
        return len([session for session in sessions if await self.end(session.id)])

    def seal(self, session_id: str, tokens: Tokens) -> str:
        return self._sealer.seal(msgspec.json.encode(tokens), session_id) if tokens != Tokens() else ""

    def tokens(self, session: Session) -> Tokens:
        """None at all where they cannot be opened: the server's key is another one now."""
        plain = self._sealer.open(session.sealed, session.id) if session.sealed else None
        return msgspec.json.decode(plain, type=Tokens) if plain else Tokens()

    async def _bound(self, user_id: str) -> None:
        """Room for one more: the oldest end."""
        for session in (await self.of_user(user_id))[: -_MOST_OF_A_USER + 1]:
            await self.end(session.id)

    async def _indexed(self, index: str) -> Found:
        names = await self._store.command("ZRANGE", keys.sessions(index), 0, -1)
        return await self._living([name.decode() for name in names], (index,))

    async def _living(self, ids: Sequence[str], indexes: Sequence[str]) -> Found:
        """Those that have not run out; the others go from the indexes."""
        if not ids:
            return []
        values = await self._store.command("MGET", *(keys.session(session_id) for session_id in ids))
        if dead := [session_id for session_id, data in zip(ids, values, strict=True) if data is None]:
            for index in indexes:
                await self._store.command("ZREM", keys.sessions(index), *dead)
        return [_decode(data) for data in values if data is not None]

    def _ttl(self, session: Session) -> int:
        """Milliseconds to the idle end or the absolute one, whichever is nearer."""
        return max(1, int(min(self._idle, session.ends - time.time()) * 1000))


def id_of(token: str) -> str:
    digest = hashlib.sha256(token.encode()).digest()
    return "ses_" + base64.b32encode(digest).decode().rstrip("=").lower()


def _keys_of(session: Session) -> tuple[str, ...]:
    indexes = ["all", "ends", _of_user(session.user)]
    if session.sid:
        indexes.append(_of_sid(session.issuer, session.sid))
    return (keys.session(session.id), *(keys.sessions(index) for index in indexes))


def _of_user(user_id: str) -> str:
    return f"user:{user_id}"


def _of_sid(issuer: str, sid: str) -> str:
    # A provider may call its sessions anything, at any length.
    return "sid:" + hashlib.sha256(f"{issuer}\0{sid}".encode()).hexdigest()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_AGENT])


def _encode(session: Session) -> bytes:
    return msgspec.json.encode(session)


def _decode(data: bytes) -> Session:
    return msgspec.json.decode(data, type=Session)
