"""What each gateway counted lately, told in Redis every two seconds: whichever is asked answers for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from gateway.activity.slots import SLOT_SECONDS, Amounts, Recorder, Told
from gateway.errors import StoreAway
from gateway.store import keys
from gateway.store.redis import Store
from gateway.store.scripts import Script

log = logging.getLogger("sekisho.activity")

# Who is silent for longer is gone, or cut off from Redis as those that ask are.
_LIFE_MS = 10_000

# KEYS 1 what gateways tell; ARGV 1 gateway  2 what it tells  3 life in ms
_TELL = Script(
    """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d ', now + ARGV[3]) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
)

# KEYS 1 what gateways tell. Answers what those tell who still count, and forgets the others.
_HEAR = Script(
    """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local all, answer = redis.call('HGETALL', KEYS[1]), {}
for index = 1, #all, 2 do
  local space = string.find(all[index + 1], ' ', 1, true)
  if tonumber(string.sub(all[index + 1], 1, space)) > now then
    answer[#answer + 1] = string.sub(all[index + 1], space + 1)
  else
    redis.call('HDEL', KEYS[1], all[index])
  end
end
return answer
"""
)

_DECODER = msgspec.msgpack.Decoder(Told)


class Activity:
    """`look` tells the recorder of what streams now, and answers the totals of this process and those of others.

    `start` before use, `aclose` after.
    """

    def __init__(
        self, store: Store, gateway: str, recorder: Recorder, look: Callable[[], tuple[Amounts, Amounts]]
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._recorder = recorder
        self._look = look
        self._closed_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._closed_at = time.monotonic()
        self._task = asyncio.create_task(self._keep())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def tell(self) -> None:
        """End the slot and tell of it. Raises StoreAway."""
        own, others = self._look()
        began, self._closed_at = self._closed_at, time.monotonic()
        self._recorder.close(max(self._closed_at - began, 0.001), own, others)
        told = msgspec.msgpack.encode(self._recorder.told())
        await self._store.run(_TELL.call((keys.ACTIVITY,), self._gateway, told, _LIFE_MS))

    async def heard(self) -> list[Told]:
        """Of every gateway that lives. Raises StoreAway."""
        found = []
        for told in await self._store.run(_HEAR.call((keys.ACTIVITY,))):
            with suppress(msgspec.MsgspecError):  # of a gateway of another release
                found.append(_DECODER.decode(told))
        return found

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(SLOT_SECONDS)
            try:
                await self.tell()
            except StoreAway:
                pass  # the slot is kept, and told with the next ones
            except Exception:
                log.exception("what goes on could not be told")
