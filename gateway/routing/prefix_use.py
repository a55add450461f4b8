"""How often prompts that a client named (X-Prefix-Id) were found in an engine's cache, by tenant and name."""

from __future__ import annotations

import re
from typing import NamedTuple

from gateway.errors import BadRequest
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call, Script

# A tenant's names beyond these are not counted until one of the others has not been used for its life.
MOST_NAMES = 1000
_LIFE_SECONDS = 30 * 86400
_MARK_SECONDS = 600
_NAME = re.compile(r"[!-~]{1,128}")

# KEYS 1 names by last use  2 counts  3 mark of the request
# ARGV 1 name  2 most names  3 life (s)  4 life of the mark (s)  5… what, amount
_USED = Script(
    """
if not redis.call('SET', KEYS[3], 1, 'NX', 'EX', ARGV[4]) then return 0 end
local name, now = ARGV[1], tonumber(redis.call('TIME')[1])
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3], 'LIMIT', 0, 10)) do
  redis.call('ZREM', KEYS[1], old)
  for index = 5, #ARGV, 2 do redis.call('HDEL', KEYS[2], ARGV[index] .. '|' .. old) end
end
if not redis.call('ZSCORE', KEYS[1], name) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, name)
for index = 5, #ARGV, 2 do redis.call('HINCRBY', KEYS[2], ARGV[index] .. '|' .. name, ARGV[index + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""
)

# KEYS 1 names by last use  2 counts; ARGV 1 life (s)
_REPORT = Script(
    """
local now = tonumber(redis.call('TIME')[1])
return {
  redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now - ARGV[1], '+inf', 'WITHSCORES'), redis.call('HGETALL', KEYS[2])
}
"""
)


class PrefixUse(NamedTuple):
    """Of the prompts that a client called so. The hit rate is cached by prompt tokens."""

    prefix_id: str
    last_used: int  # Unix seconds
    requests: int
    prompt_tokens: int
    cached_tokens: int


def prefix_name(header: bytes | None) -> str:
    """The name in a request's X-Prefix-Id; empty where it has none. Raises BadRequest."""
    if header is None:
        return ""
    name = header.decode("latin-1")
    if not _NAME.fullmatch(name):
        raise BadRequest(
            "X-Prefix-Id must be 1 to 128 printable ASCII characters without spaces.",
            param="X-Prefix-Id",
            code="invalid_prefix_id",
        )
    return name


def prefix_used(request_id: str, tenant: str, prefix_id: str, prompt: int, cached: int) -> Call:
    """The call that counts a request and its prompt's tokens. Sent twice, it counts once."""
    names = (keys.prefixes(tenant), keys.prefix_use(tenant), keys.prefix_used(request_id))
    amounts = ("requests", 1, "prompt_tokens", prompt, "cached_tokens", cached)
    return _USED.call(names, prefix_id, MOST_NAMES, _LIFE_SECONDS, _MARK_SECONDS, *amounts)


async def prefix_report(store: Store, tenant: str) -> list[PrefixUse]:
    """By name. Raises StoreAway."""
    names = (keys.prefixes(tenant), keys.prefix_use(tenant))
    used, counts = await store.run(_REPORT.call(names, _LIFE_SECONDS))
    amounts = dict(zip(counts[::2], map(int, counts[1::2]), strict=True))
    found = [
        PrefixUse(
            name.decode(),
            int(float(last)),
            *(amounts.get(what + b"|" + name, 0) for what in (b"requests", b"prompt_tokens", b"cached_tokens")),
        )
        for name, last in zip(used[::2], used[1::2], strict=True)
    ]
    return sorted(found)
