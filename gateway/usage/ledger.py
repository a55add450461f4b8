"""The ledger: requests and tokens a day and subject, each request booked exactly once. Knows no stream and no price."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call, Script

_DAY_LIFE_SECONDS = 400 * 86400
_MARK_LIFE_SECONDS = 600

# KEYS 1 settled mark  2 day; ARGV 1 mark life  2 day life  3… field, amount
_SETTLE = Script(
    """
if not redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[1]) then return 0 end
for index = 3, #ARGV, 2 do
  if ARGV[index + 1] ~= '0' then redis.call('HINCRBY', KEYS[2], ARGV[index], ARGV[index + 1]) end
end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
"""
)


class Used(NamedTuple):
    """One request's account. `estimated` is 1 where the engine was cut off before it counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    estimated: int = 0
    failed: int = 0


def settle(request_id: str, subject: str, admitted_ms: int, used: Used) -> Call:
    """The call that books a request on the day of its admission. Sent twice, it books once."""
    amounts: list[str | int] = ["requests", 1]
    for name, amount in used._asdict().items():
        amounts += [name, amount]
    day_key = keys.usage(subject, _day(admitted_ms))
    return _SETTLE.call((keys.settled(request_id), day_key), _MARK_LIFE_SECONDS, _DAY_LIFE_SECONDS, *amounts)


async def read(store: Store, subject: str, day: str) -> Mapping[str, int]:
    """A subject's account of a day (yyyymmdd, UTC)."""
    answer = await store.command("HGETALL", keys.usage(subject, day))
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return {name.decode(): int(amount) for name, amount in pairs}


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y%m%d")
