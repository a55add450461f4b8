"""What a request used is booked once, whatever became of it, and as soon as Redis can. Its turn comes back with it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from backends.base import Account
from backends.errors import BackendError, Unreachable
from backends.estimate import PromptEstimates
from gateway.activity.slots import Recorder, Streamed, Whose
from gateway.errors import StoreAway
from gateway.queueing.ask import Ask
from gateway.queueing.lines import Lines
from gateway.quotas.buckets import Usage
from gateway.quotas.service import QuotaService
from gateway.routing.fleet import Fleet
from gateway.routing.prefix_use import prefix_used
from gateway.scope import RequestScope
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.store.scripts import Call
from gateway.streaming.meter import Meter
from gateway.telemetry.metrics import Metrics
from gateway.usage import ledger

log = logging.getLogger("sekisho.booking")

# A client is not kept waiting for its booking; the booking waits for Redis.
_PATIENCE_SECONDS = 2.0
_BOOKING_SECONDS = 480.0  # less than the marks against booking twice are kept
_BOOKING_RETRY_SECONDS = 1.0
_CLOSING_SECONDS = 5.0
# An engine notices within a step that nobody reads; only then is its count of the request the last word.
_COUNTING_SECONDS = 10.0
_COUNTING_RETRY_SECONDS = 0.05
_ARRIVING_SECONDS = 1.0  # what it has not heard of by then never came to it
# A shorter answer says little of how fast tokens come.
_TELLING_TOKENS = 8
# How a request ends whose engine was stopped while it was busy.
_CUT_OFF = frozenset({"client_gone", "client_stalled", "credential_revoked", "cancelled_by_administrator"})


@dataclass(slots=True)
class Opened:
    """A request between its asking and its booking."""

    request: RequestScope
    meter: Meter
    ask: Ask  # of the turn that it has, or waits for


class Booking:
    """`start` before use, `aclose` after."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        quotas: QuotaService,
        lines: Lines,
        fleet: Fleet,
        metrics: Metrics,
        recorder: Recorder,
    ) -> None:
        self._settings = settings
        self._store = store
        self._quotas = quotas
        self._lines = lines
        self._fleet = fleet
        self._metrics = metrics
        self.recorder = recorder
        self.estimates = PromptEstimates()
        self.open: dict[str, Opened] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._bookings: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep_alive())

    async def aclose(self) -> None:
        """What is not booked by now is said in the log."""
        if self._bookings:
            await asyncio.wait(self._bookings, timeout=_CLOSING_SECONDS)
        tasks = [*self._bookings, *([self._keeper] if self._keeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def unbooked(self) -> int:
        """Requests that have ended and are not booked yet: more than a few only while Redis is away."""
        return len(self._bookings)

    def forget(self, request: RequestScope) -> None:
        """It took nothing: an outage leaves no bookings behind of all that it refused."""
        self._quotas.settle(request.request_id, Usage())
        self.recorder.ended(request.request_id)
        del self.open[request.request_id]

    async def settle(self, request: RequestScope) -> None:
        """Give back the turn and book what was used, in a task of its own: what ends the request must not end this."""
        if request.request_id not in self.open:
            return
        task = asyncio.create_task(self._book(self.open.pop(request.request_id)))
        self._bookings.add(task)
        task.add_done_callback(self._bookings.discard)
        if request.outcome != StoreAway.code:
            await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)

    def served(self, opened: Opened) -> float:
        """The weighted service that a request has taken so far."""
        return self._weighted(_used(opened))

    def record(self) -> None:
        """Tell the recorder how far the requests are that run and wait."""
        for opened in self.open.values():
            so_far, counted = _so_far(opened), opened.meter.prompt_tokens or 0
            self._record(opened.request, Streamed(so_far.input, counted, so_far.cached, so_far.output))

    async def account(self, request_id: str) -> Usage | None:
        """What the engines counted of a request whose gateway died. Raises BackendError where one cannot say yet."""
        keepers = [member.backend for member in self._fleet.members.values() if member.backend.keeps_accounts]
        found = await asyncio.gather(*(backend.account(request_id) for backend in keepers), return_exceptions=True)
        accounts = [account for account in found if account is not None and not isinstance(account, BaseException)]
        if any(not account.ended for account in accounts):
            raise BackendError(f"request {request_id} is still running")
        faults = [fault for fault in found if isinstance(fault, BaseException)]
        if faults and not accounts:
            raise faults[0]
        if not accounts:
            return None
        # Of one that moved from engine to engine each knows a part of the answer, and the prompt.
        prompt = min(account.prompt_tokens for account in accounts)
        cached = min(account.cached_tokens for account in accounts)
        return Usage(1, prompt, cached, sum(account.completion_tokens for account in accounts))

    def book(self, request_id: str, note: str, used: Usage, claim: str) -> Call:
        """For a request whose gateway died, by the note of its reservation; nothing once the claim is lost."""
        whose = msgspec.json.decode(note, type=ledger.Whose)
        account = ledger.Used(used.input, used.output, used.cached, failed=1)
        return ledger.settle(request_id, round(time.time() * 1000), account, whose, claim)

    async def _book(self, opened: Opened) -> None:
        request, meter = opened.request, opened.meter
        used, pace = _used(opened), _seconds_per_token(request, meter)
        if request.dispatched and meter.prompt_tokens is None:
            used = await self._counted(request, meter, used)
        elif meter.prompt_tokens:
            self.estimates.learn(request.model, request.prompt_size, meter.prompt_tokens)
        counted = 0 if used.estimated else used.prompt_tokens
        self._record(request, Streamed(used.prompt_tokens, counted, used.cached_tokens, used.completion_tokens))
        self.recorder.ended(request.request_id)
        calls = [self._release(request, used, pace)]
        if request.admitted_ms:
            request.tokens = {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.completion_tokens}
            calls.append(ledger.settle(request.request_id, request.admitted_ms, used, whose(request)))
            self._metrics.book(request.model, used.prompt_tokens, used.cached_tokens, used.completion_tokens)
            if request.prefix_id:
                tenant = request.known().tenant
                told = (used.prompt_tokens, used.cached_tokens)
                calls.append(prefix_used(request.request_id, tenant, request.prefix_id, *told))
        # Last: as long as there is a reservation, somebody will see to it that all of this is done.
        usage = Usage(int(request.dispatched > 0), used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        calls += self._quotas.settle(request.request_id, usage, learn=request.outcome == "ok")
        await self._send(request, calls)

    def _record(self, request: RequestScope, tokens: Streamed) -> None:
        self.recorder.streamed(
            request.request_id, Whose(request.known().subject, request.model, request.backend), tokens
        )

    async def _send(self, request: RequestScope, calls: list[Call]) -> None:
        booked = False
        try:
            async with asyncio.timeout(_BOOKING_SECONDS):
                while not booked:
                    with suppress(StoreAway):
                        await self._store.run_all(*calls)
                        booked = True
                    if not booked:
                        await asyncio.sleep(_BOOKING_RETRY_SECONDS)
        finally:
            if not booked:
                # Its reservation runs out, and is settled with what was last told of it.
                log.error("request %s could not be booked: %s", request.request_id, request.tokens)

    def _release(self, request: RequestScope, used: ledger.Used, seconds_per_token: float = 0.0) -> Call:
        return self._lines.line(request.line).release(request.request_id, self._weighted(used), seconds_per_token)

    def _weighted(self, used: ledger.Used) -> float:
        return self._settings.token_weights.of(used.prompt_tokens, used.cached_tokens, used.completion_tokens)

    async def _counted(self, request: RequestScope, meter: Meter, known: ledger.Used) -> ledger.Used:
        """Of an answer that ended before its usage was told: the engine's own count, or else what is `known`."""
        member = self._fleet.members.get(request.backend)
        if member is None or not member.backend.keeps_accounts:
            return known
        with suppress(StoreAway):
            await self._store.run(self._release(request, known))  # who is next does not wait for the count
        began = time.monotonic()
        while (waited := time.monotonic() - began) < _COUNTING_SECONDS:
            try:
                count = await member.backend.account(request.asked_as)
                if count is not None and count.ended:
                    return _with_said_before(request, count, known.failed)
                if count is None and waited > _ARRIVING_SECONDS:
                    return known if meter.began else ledger.Used(failed=known.failed)
            except Unreachable:
                break  # and its accounts with it
            except BackendError:
                pass  # it cannot say yet
            await asyncio.sleep(_COUNTING_RETRY_SECONDS)
        return known

    async def _keep_alive(self) -> None:
        """The turns renew themselves; what is reserved is renewed here, with what has been used of it so far."""
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            streamed = {name: _so_far(opened) for name, opened in self.open.items()}
            if calls := self._quotas.progress(streamed):
                with suppress(StoreAway):
                    await self._store.run_all(*calls)


def whose(request: RequestScope) -> ledger.Whose:
    principal = request.known()
    return ledger.Whose(principal.subject, request.model, principal.key_id, principal.acting)


def note(request: RequestScope) -> str:
    """What the reaper is given, should this gateway die."""
    return msgspec.json.encode(whose(request)).decode()


def _used(opened: Opened) -> ledger.Used:
    """The account of a request, whatever became of it."""
    request, meter = opened.request, opened.meter
    prompt_tokens, estimated = meter.prompt_tokens, 0
    if prompt_tokens is None:
        # A refused prompt cost nothing; one that was cut off was read, in whole or in part.
        was_read = request.dispatched and (meter.began or request.outcome in _CUT_OFF)
        prompt_tokens, estimated = (request.prompt_estimate, 1) if was_read else (0, 0)
    return ledger.Used(
        prompt_tokens, meter.completion_tokens, meter.cached_tokens, estimated, failed=int(request.outcome != "ok")
    )


def _with_said_before(request: RequestScope, count: Account, failed: int) -> ledger.Used:
    """The last engine's count. What the ones before said was a part of its prompt, and is a part of the answer."""
    before = request.said_before
    prompt = max(0, count.prompt_tokens - before)
    return ledger.Used(prompt, count.completion_tokens + before, min(count.cached_tokens, prompt), failed=failed)


def _so_far(opened: Opened) -> Usage:
    meter = opened.meter
    prompt = meter.prompt_tokens or (opened.request.prompt_estimate if meter.began else 0)
    return Usage(1, prompt, meter.cached_tokens, meter.completion_tokens)


def _seconds_per_token(request: RequestScope, meter: Meter) -> float:
    """Between tokens of one choice; 0 where this answer says nothing of it."""
    tokens = meter.completion_tokens / request.choices
    if request.outcome != "ok" or request.tries > 1 or tokens < _TELLING_TOKENS:
        return 0.0
    return (time.monotonic() - meter.began_at) / (tokens - 1)
