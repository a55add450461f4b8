"""The ledger: requests and tokens by day, subject, model and key, each request booked once. Knows no price."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Call, Script

_DAY_LIFE_SECONDS = 400 * 86400
_MARK_LIFE_SECONDS = 600
# A program names people as it likes. Past this many of them a day, the rest is booked on the program itself.
MOST_NAMES = 10_000
# Read a few at a time, so that nobody's request waits for a report.
_CHUNK = 100
# A model's name may hold it: it comes last.
_BETWEEN = "|"

# KEYS 1 settled mark  2 the subject's day  3 index of the day  4 the program's day  5 RESERVATIONS, with a claim
# ARGV 1 mark life  2 day life  3 subject  4 program, or empty where it named nobody  5 most names  6 end of the fields
#      7 request id  8 the claim of the reaper, or empty  9… what, amount
_SETTLE = Script(
    """
if KEYS[5] and tonumber(redis.call('ZSCORE', KEYS[5], ARGV[7]) or 0) ~= tonumber(ARGV[8]) then return 0 end
if not redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[1]) then return 0 end
local account, subject, program = KEYS[2], ARGV[3], ARGV[4]
if program ~= '' and not redis.call('ZSCORE', KEYS[3], subject)
  -- '0' follows '/': between the two is all that the program has named.
  and redis.call('ZLEXCOUNT', KEYS[3], '[' .. program .. '/', '(' .. program .. '0') >= tonumber(ARGV[5]) then
  account, subject = KEYS[4], program
end
for index = 9, #ARGV, 2 do
  if ARGV[index + 1] ~= '0' then redis.call('HINCRBY', account, ARGV[index] .. ARGV[6], ARGV[index + 1]) end
end
redis.call('ZADD', KEYS[3], 0, subject)
redis.call('EXPIRE', account, ARGV[2])
redis.call('EXPIRE', KEYS[3], ARGV[2])
return 1
"""
)

_ACCOUNTS = Script(
    """
local answer = {}
for index, name in ipairs(KEYS) do answer[index] = redis.call('HGETALL', name) end
return answer
"""
)

_SIZES = Script(
    """
local answer = {}
for index, name in ipairs(KEYS) do answer[index] = redis.call('ZCARD', name) end
return answer
"""
)


class Used(NamedTuple):
    """One request's account. `estimated` is 1 where the engine was cut off before it counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    estimated: int = 0
    failed: int = 0


class Whose(NamedTuple):
    """On whom a request is booked."""

    subject: str
    model: str = ""
    key_id: str = ""  # empty: with a browser or a token
    acting: str = ""  # the service account that asked on the subject's behalf; empty: none did


class Booked(NamedTuple):
    """What one subject used on a day, of one model, with one key, asked for by one program."""

    day: date
    subject: str
    key_id: str  # empty: with a browser or a token
    acting: str  # the service account that asked on the subject's behalf; empty: none did
    model: str
    amounts: Mapping[str, int]  # requests, and what Used names; what is 0 may be missing


def settle(request_id: str, admitted_ms: int, used: Used, whose: Whose, claim: str = "") -> Call:
    """The call that books a request on the day of its admission (UTC). Sent twice, it books once.

    `claim`: by who settles it in its gateway's place, and only while that claim holds.
    """
    amounts: list[str | int] = ["requests", 1]
    for name, amount in used._asdict().items():
        amounts += [name, amount]
    day = _day(admitted_ms)
    subject, model, key_id, acting = whose
    program = acting if subject.startswith(f"{acting}/") else ""
    names = (
        keys.settled(request_id),
        keys.usage(subject, day),
        keys.usage_subjects(day),
        keys.usage(program or subject, day),
        *((keys.RESERVATIONS,) if claim else ()),
    )
    ending = _BETWEEN + _BETWEEN.join((key_id, acting, model))
    lives = (_MARK_LIFE_SECONDS, _DAY_LIFE_SECONDS)
    return _SETTLE.call(names, *lives, subject, program, MOST_NAMES, ending, request_id, claim, *amounts)


async def read(store: Store, subject: str, day: str) -> Mapping[str, int]:
    """A subject's account of a day (yyyymmdd, UTC), all models and keys together."""
    (fields,) = await store.run(_ACCOUNTS.call((keys.usage(subject, day),)))
    return _sum(fields)


async def sums(store: Store, subjects: Sequence[str], day: date) -> Mapping[str, Mapping[str, int]]:
    """The accounts of a day of these subjects, each with all models and keys together; empty of who has none."""
    found: dict[str, Mapping[str, int]] = {}
    for start in range(0, len(subjects), _CHUNK):
        some = subjects[start : start + _CHUNK]
        names = tuple(keys.usage(subject, _spelled(day)) for subject in some)
        found |= zip(some, map(_sum, await store.run(_ACCOUNTS.call(names))), strict=True)
    return found


async def accounts(store: Store, days: Sequence[date]) -> int:
    """How many accounts these days have: one a day and subject."""
    return sum(await store.run(_SIZES.call(tuple(keys.usage_subjects(_spelled(day)) for day in days))))


async def booked(store: Store, days: Sequence[date]) -> AsyncIterator[list[Booked]]:
    """All that was booked on these days, some subjects at a time."""
    for day in days:
        after = ""
        while subjects := await _subjects(store, day, after):
            names = tuple(keys.usage(subject, _spelled(day)) for subject in subjects)
            found = await store.run(_ACCOUNTS.call(names))
            yield [
                Booked(day, subject, *by, amounts)
                for subject, fields in zip(subjects, found, strict=True)
                for by, amounts in _parted(fields).items()
            ]
            after = subjects[-1]
            if len(subjects) < _CHUNK:
                break


async def _subjects(store: Store, day: date, after: str) -> list[str]:
    start = f"({after}" if after else "-"
    found = await store.command("ZRANGE", keys.usage_subjects(_spelled(day)), start, "+", "BYLEX", "LIMIT", 0, _CHUNK)
    return [subject.decode() for subject in found]


def _sum(fields: list[Any]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for amounts in _parted(fields).values():
        for what, amount in amounts.items():
            sums[what] = sums.get(what, 0) + amount
    return sums


def _parted(fields: list[Any]) -> dict[tuple[str, str, str], dict[str, int]]:
    """By key, program and model."""
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for name, amount in zip(fields[::2], fields[1::2], strict=True):
        what, key_id, acting, model = name.decode().split(_BETWEEN, 3)
        found.setdefault((key_id, acting, model), {})[what] = int(amount)
    return found


def _day(ms: int) -> str:
    return _spelled(datetime.fromtimestamp(ms / 1000, UTC))


def _spelled(day: date) -> str:
    return day.strftime("%Y%m%d")
