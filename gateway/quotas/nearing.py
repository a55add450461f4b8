"""How near budgets are to their end: what is used of limits by day and month, looked at now and then.

Off the path of requests, which only say whom they come from. Names no person: a policy's buckets are told together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from gateway.errors import StoreAway
from gateway.quotas.buckets import Bucket
from gateway.quotas.scripts import LOOK
from gateway.store.redis import Store

log = logging.getLogger("sekisho.quotas")

# Of what it holds a bucket is near its end from here on.
NEAR = 0.9

_SECONDS = 15.0
_MOST = 4096  # buckets, those that were used last
_TOGETHER = 64  # buckets in one LOOK: long scripts keep everybody else waiting

_PolicyLimit = tuple[str, ...]  # a policy's name and its limit's


class Nearing:
    """`start` before use, `aclose` after. Knows the buckets that requests of this gateway came to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: OrderedDict[tuple[str, str, str], Bucket] = OrderedDict()
        self._used: dict[_PolicyLimit, list[float]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def note(self, buckets: Iterable[Bucket]) -> None:
        """Somebody asks by these. What is in shadow refuses nobody and is left out."""
        for bucket in buckets:
            limit = bucket.limit
            if limit.name.endswith(("_per_day", "_per_month")) and not limit.shadow and limit.value > 0:
                whose = (limit.policy, limit.name, limit.whom)
                self._seen[whose] = bucket
                self._seen.move_to_end(whose)
        while len(self._seen) > _MOST:
            self._seen.popitem(last=False)

    def forget(self) -> None:
        """The policies have changed: what they are now is told by the next requests."""
        self._seen.clear()
        self._used = {}

    def fullest(self) -> Mapping[_PolicyLimit, float]:
        """What is used of the fullest bucket, 0 to 1, or more where more was used than estimated."""
        return {name: max(used) for name, used in self._used.items()}

    def near(self) -> Mapping[_PolicyLimit, float]:
        """How many buckets are near their end, or past it."""
        return {name: float(sum(part >= NEAR for part in used)) for name, used in self._used.items()}

    async def look(self) -> None:
        """Raises StoreAway."""
        self._seen = OrderedDict((whose, bucket) for whose, bucket in self._seen.items() if not _is_over(bucket))
        buckets, used = list(self._seen.values()), dict[_PolicyLimit, list[float]]()
        for start in range(0, len(buckets), _TOGETHER):
            for bucket, part in await self._parts(buckets[start : start + _TOGETHER]):
                used.setdefault((bucket.limit.policy, bucket.limit.name), []).append(part)
        self._used = used

    async def _parts(self, buckets: Sequence[Bucket]) -> list[tuple[Bucket, float]]:
        names = tuple(key for bucket in buckets for key in bucket.keys)
        _, *answer = await self._store.run(LOOK.call(names, ";".join(bucket.rule for bucket in buckets)))
        used = (bucket.limit.value - left for bucket, left in zip(buckets, answer[::2], strict=True))
        return [(bucket, amount / bucket.limit.value) for bucket, amount in zip(buckets, used, strict=True)]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self.look()
            except StoreAway:
                continue  # said by others; what was seen last stands
            except Exception:
                log.exception("how near budgets are to their end could not be seen")


def _is_over(bucket: Bucket) -> bool:
    """Both periods that it has keys of have ended."""
    return int(bucket.rule.split()[5]) <= _now_ms()


def _now_ms() -> int:
    return round(time.time() * 1000)
