"""What each request has cost, by the id that the door gave it, for whoever has to settle when the answer never arrived.

Knows neither quotas nor prices. Lives in the event loop.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from backends.wire.responses import Usage
from native_engine.request import Stages
from native_engine.server.metrics import Metrics

KEPT_REQUESTS = 20_000
KEPT_SECONDS = 3600.0


class UnderWay(Protocol):
    """One request, and after its end what it was."""

    @property
    def state(self) -> str: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def stages(self) -> Stages | None:
        """None where it goes through none."""
        ...


class Account(msgspec.Struct, frozen=True, gc=False):
    """`state` is "waiting", "running", "finished", "aborted" or "failed"; only the last three are final.

    The figures are those of the answer's usage, or what that would have said. A prompt that never began to run is not
    in them. The seconds are those of request.Stages, so far; null where a stage has not begun.
    """

    id: str
    state: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    queue_seconds: float | None = None
    prefill_seconds: float | None = None
    decode_seconds: float | None = None

    def after(self, earlier: Account) -> Account:
        """An id that was sent again, after a connection broke, has cost what all its runs did."""
        return Account(
            self.id,
            self.state,
            self.prompt_tokens + earlier.prompt_tokens,
            self.cached_tokens + earlier.cached_tokens,
            self.completion_tokens + earlier.completion_tokens,
            _sum(self.queue_seconds, earlier.queue_seconds),
            _sum(self.prefill_seconds, earlier.prefill_seconds),
            _sum(self.decode_seconds, earlier.decode_seconds),
        )


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one + (other or 0.0)


class Accounts:
    """Those under way, and the last that ended: at most `requests` of them, none older than `seconds`."""

    def __init__(
        self,
        metrics: Metrics,
        requests: int = KEPT_REQUESTS,
        seconds: float = KEPT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._requests = requests
        self._seconds = seconds
        self._clock = clock
        self._open: dict[str, list[UnderWay]] = {}
        self._ended: OrderedDict[str, tuple[float, Account]] = OrderedDict()  # the oldest first

    @contextmanager
    def kept(self, request_id: str, generation: UnderWay) -> Iterator[None]:
        """Around the answer; when it ends, `generation` must have ended too."""
        self._open.setdefault(request_id, []).append(generation)
        try:
            yield
        finally:
            self._end(request_id, generation)

    def find(self, request_id: str) -> Account | None:
        found = self._ended_account(request_id)
        for generation in self._open.get(request_id, ()):
            account = _account(request_id, generation)
            found = account.after(found) if found else account
        return found

    def _end(self, request_id: str, generation: UnderWay) -> None:
        self._open[request_id].remove(generation)
        if not self._open[request_id]:
            del self._open[request_id]
        account = _account(request_id, generation)
        self._metrics.account(generation.usage)
        earlier = self._ended_account(request_id)
        self._ended[request_id] = (self._clock(), account.after(earlier) if earlier else account)
        self._ended.move_to_end(request_id)
        self._forget_oldest()

    def _ended_account(self, request_id: str) -> Account | None:
        ended_at, account = self._ended.get(request_id, (0.0, None))
        return account if account is not None and ended_at + self._seconds > self._clock() else None

    def _forget_oldest(self) -> None:
        horizon = self._clock() - self._seconds
        while len(self._ended) > self._requests or next(iter(self._ended.values()))[0] <= horizon:
            self._ended.popitem(last=False)


def _account(request_id: str, generation: UnderWay) -> Account:
    usage = generation.usage
    return Account(
        request_id,
        generation.state,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        *(generation.stages or ()),
    )
