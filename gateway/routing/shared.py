"""What one gateway finds of the backends, all gateways know within a second. Without Redis each goes by what it sees.

A gateway tells when a state changes, and once a second again: who stops telling is dead, and its word lapses by itself.
What is heard goes into `Health.hear`, which weighs it against what was seen here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from gateway.errors import StoreAway
from gateway.routing.health import Health, State, Verdict
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

_LOOK_SECONDS = 0.1  # at the healths here
_TELL_SECONDS = 1.0  # even if nothing has changed
_LIFE_MS = 5000
_RECONNECT_SECONDS = 0.5

# KEYS 1 what gateways tell  2 channel; ARGV 1 gateway  2 what it tells  3 life in ms
# Answers the server's time in ms, and what the others tell.
_TELL = Script(
    """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local others, before = {}, ''
local all = redis.call('HGETALL', KEYS[1])
for index = 1, #all, 2 do
  local gateway, space = all[index], string.find(all[index + 1], ' ', 1, true)
  local until_ms, told = tonumber(string.sub(all[index + 1], 1, space)), string.sub(all[index + 1], space + 1)
  if gateway == ARGV[1] then
    before = told
  elseif until_ms <= now then
    redis.call('HDEL', KEYS[1], gateway)
  else
    others[#others + 1] = told
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d ', now + ARGV[3]) .. ARGV[2])
if ARGV[2] ~= before then redis.call('PUBLISH', KEYS[2], ARGV[2]) end
return { now, others }
"""
)


class _Word(msgspec.Struct, frozen=True, array_like=True):
    """A verdict in the server's time, ms. `at` is 0 where nothing ever happened."""

    state: State
    why: str
    at: int
    until: int | None

    @classmethod
    def of(cls, verdict: Verdict, offset: float) -> _Word:
        at = 0 if verdict.at == -math.inf else round((verdict.at + offset) * 1000)
        until = None if verdict.until is None else round((verdict.until + offset) * 1000)
        return cls(verdict.state, verdict.why, at, until)

    def verdict(self, offset: float) -> Verdict:
        until = None if self.until is None else self.until / 1000 - offset
        return Verdict(self.state, self.why, self.at / 1000 - offset, until)


class _Told(msgspec.Struct, frozen=True, array_like=True):
    gateway: str
    words: dict[str, _Word]  # by backend


_DECODER = msgspec.msgpack.Decoder(_Told)


class Shared:
    """`healths`: of the backends as they are now, by name. `changed` is called with the name of one whose state changed
    by what was heard. `start` before use, `aclose` after.
    """

    def __init__(
        self,
        store: Store,
        gateway: str,
        healths: Callable[[], Mapping[str, Health]],
        changed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._healths = healths
        self._changed = changed
        self._offset: float | None = None  # the server's clock less ours, seconds
        # A word stays as it was said: clocks drift, and a word with another time would be another word.
        self._said: dict[str, tuple[Verdict, _Word]] = {}
        self._told: dict[str, Verdict] = {}
        self._told_at = -math.inf
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(task()) for task in (self._listen, self._keep_telling)]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_telling(self) -> None:
        while True:
            if self._verdicts() != self._told or time.monotonic() - self._told_at >= _TELL_SECONDS:
                with suppress(StoreAway):
                    await self._tell()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _listen(self) -> None:
        while True:
            try:
                async with self._store.subscribed(keys.HEALTH_TOLD) as messages:
                    await self._tell()  # what was told before is lost
                    async for message in messages:
                        self._hear(message)
            except (OSError, StoreAway):
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _tell(self) -> None:
        """Also hears what the others told. Raises StoreAway."""
        if self._offset is None:
            seconds, micros = await self._store.command("TIME")
            self._offset = int(seconds) + int(micros) / 1e6 - time.monotonic()
        verdicts = self._verdicts()
        told = msgspec.msgpack.encode(_Told(self._gateway, self._words(verdicts, self._offset)))
        now_ms, others = await self._store.run(
            _TELL.call((keys.HEALTH, keys.HEALTH_TOLD), self._gateway, told, _LIFE_MS)
        )
        self._told, self._told_at = verdicts, time.monotonic()
        self._offset = now_ms / 1000 - self._told_at
        for other in others:
            self._hear(other)

    def _verdicts(self) -> dict[str, Verdict]:
        now = time.monotonic()
        return {name: health.seen(now) for name, health in self._healths().items()}

    def _words(self, verdicts: Mapping[str, Verdict], offset: float) -> dict[str, _Word]:
        said = self._said
        self._said = {
            name: said[name] if name in said and said[name][0] == verdict else (verdict, _Word.of(verdict, offset))
            for name, verdict in verdicts.items()
        }
        return {name: word for name, (_, word) in self._said.items()}

    def _hear(self, data: bytes) -> None:
        try:
            told = _DECODER.decode(data)
        except msgspec.MsgspecError:  # of a gateway of another release
            return
        if told.gateway == self._gateway or self._offset is None:
            return
        healths, now = self._healths(), time.monotonic()
        for name, word in told.words.items():
            if (health := healths.get(name)) is not None:
                before = health.state(now)
                health.hear(word.verdict(self._offset))
                if health.state(now) is not before:
                    self._changed(name)
