"""May this request go in, and when: its quota and its turn are asked for together, kept alive, and given back together.

Works for the pipeline alone. What was used is booked once, whatever became of the request, and as soon as Redis can.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import NamedTuple

import msgspec

from backends.errors import BackendError, Unreachable
from backends.estimate import PromptEstimates, PromptSize, size_of
from gateway.errors import QueueFull, StoreAway
from gateway.queueing.ask import Ask, Room
from gateway.queueing.permits import OnPlace, Permits
from gateway.quotas.buckets import Usage
from gateway.quotas.headers import rate_headers
from gateway.quotas.plan import Plan, Size
from gateway.quotas.service import QuotaService
from gateway.routing.engines import Engines
from gateway.scope import Principal, QueueClass, RequestScope
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.store.scripts import Call
from gateway.streaming.meter import Meter
from gateway.telemetry.metrics import Metrics
from gateway.usage import ledger

log = logging.getLogger("sekisho.admission")

# How often the engine is asked how large its cache is, and what was measured of its speed is turned into a capacity.
_CACHE_SECONDS = 10.0
_ROOM_SECONDS = 1.0
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
_CUT_OFF = frozenset({"client_gone", "credential_revoked", "cancelled_by_administrator"})


class _Open(NamedTuple):
    """A request between its asking and its booking."""

    request: RequestScope
    meter: Meter
    size: PromptSize
    prompt_tokens: int  # as estimated


class Admission:
    """`start` before use, `aclose` after."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        quotas: QuotaService,
        permits: Permits,
        engines: Engines,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._store = store
        self._quotas = quotas
        self._permits = permits
        self._engines = engines
        self._metrics = metrics
        self._estimates = PromptEstimates()
        self._open: dict[str, _Open] = {}
        self._local: set[str] = set()  # admitted while Redis was away
        self._tasks: list[asyncio.Task[None]] = []
        self._bookings: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._permits.start()
        self._tasks = [asyncio.create_task(task()) for task in (self._keep_alive, self._watch_room)]

    async def aclose(self) -> None:
        """What is not booked by now is said in the log."""
        if self._bookings:
            await asyncio.wait(self._bookings, timeout=_CLOSING_SECONDS)
        for task in (*self._tasks, *self._bookings):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._bookings, return_exceptions=True)
        await self._permits.aclose()

    async def admit(self, request: RequestScope, meter: Meter, on_place: OnPlace | None) -> None:
        """Returns when it is the request's turn. Raises what says why not. However it ends, `settle` follows."""
        size = size_of(request.body)
        prompt = self._estimates.tokens(request.model, size)
        plan = await self._plan(request, prompt)
        self._open[request.request_id] = _Open(request, meter, size, prompt)  # from here on it may hold something
        ask = self._ask(request, plan, prompt)
        calls = (self._quotas.reserve(plan, _note(request)), self._permits.acquire(ask))
        try:
            reservation, place = await self._store.run_all(*calls)
        except StoreAway as away:
            try:
                self._admit_locally(request, plan)
            except StoreAway:
                if away.unasked:
                    self._forget(request)
                raise
            return
        reserved = self._quotas.reserved(plan, reservation)
        for refusal in reserved.shadow:
            log.info("request %s would have been refused by policy %s", request.request_id, refusal)
        request.answer_headers += rate_headers(reserved.requests, reserved.tokens)
        asked = time.monotonic()
        turn = await self._permits.wait(ask, place, on_place)
        request.admitted_ms = turn.granted_ms
        if turn.waited:
            request.queued_seconds = time.monotonic() - asked
        request.answer_headers.append((b"x-queue-wait-ms", str(round(request.queued_seconds * 1000)).encode()))

    @property
    def unbooked(self) -> int:
        """Requests that have ended and are not booked yet: more than a few only while Redis is away."""
        return len(self._bookings)

    async def settle(self, request: RequestScope, meter: Meter) -> None:
        """Give back the turn and book what was used, in a task of its own: what ends the request must not end this."""
        task = asyncio.create_task(self._book(request, meter))
        self._bookings.add(task)
        task.add_done_callback(self._bookings.discard)
        if request.outcome != StoreAway.code:
            await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)

    async def account(self, request_id: str) -> Usage | None:
        """The engine's own count of a request whose gateway died. Raises BackendError where it cannot be had yet."""
        found = await self._engines.backend.account(request_id)
        if found is None:
            return None
        if not found.ended:
            raise BackendError(f"request {request_id} is still running")
        return Usage(1, found.prompt_tokens, found.cached_tokens, found.completion_tokens)

    def book(self, request_id: str, note: str, used: Usage, claim: str) -> Call:
        """For a request whose gateway died, by the note of its reservation; nothing once the claim is lost."""
        whose = msgspec.json.decode(note, type=ledger.Whose)
        account = ledger.Used(used.input, used.output, used.cached, failed=1)
        return ledger.settle(request_id, round(time.time() * 1000), account, whose, claim)

    async def _plan(self, request: RequestScope, prompt: int) -> Plan:
        context = (await self._engines.card(request.model)).context_length or 0
        size = Size(prompt, request.output_limit, context)
        plan = await self._quotas.plan(request.request_id, request.known(), request.model, size)
        if plan.output_cap:
            name = "max_completion_tokens" if request.form == "chat" else "max_tokens"
            request.fields[name] = msgspec.Raw(b"%d" % max(1, plan.output_cap // request.choices))
        return plan

    def _admit_locally(self, request: RequestScope, plan: Plan) -> None:
        """This gateway's part of every limit and of the engine, where the settings say so. Raises StoreAway else."""
        self._quotas.reserve_locally(plan)
        if self._permits.held + len(self._local) >= max(1, self._permits.room.capacity // self._settings.replicas):
            raise QueueFull(
                "The engine is busy, and nobody can wait in line at the moment. Try again in a few seconds."
            )
        self._local.add(request.request_id)
        request.admitted_ms = round(time.time() * 1000)

    def _forget(self, request: RequestScope) -> None:
        """It took nothing: an outage leaves no bookings behind of all that it refused."""
        self._quotas.settle(request.request_id, Usage())
        del self._open[request.request_id]

    def _ask(self, request: RequestScope, plan: Plan, prompt: int) -> Ask:
        principal, output = request.known(), self._quotas.expected_output(plan)
        return Ask(
            request.request_id,
            queue_class(principal),
            principal.subject,
            tokens=self._settings.token_weights.of(prompt, 0, output),
            kv_tokens=prompt + output,
            reserved=True,
            model=request.model,
        )

    async def _book(self, request: RequestScope, meter: Meter) -> None:
        opened = self._open.pop(request.request_id, None)
        if opened is None:
            return
        self._local.discard(request.request_id)
        pace = _seconds_per_token(request, meter)
        used = _used(request, meter, opened.prompt_tokens)
        if request.dispatched and meter.prompt_tokens is None:
            used = await self._counted(request, meter, used)
        elif meter.prompt_tokens:
            self._estimates.learn(request.model, opened.size, meter.prompt_tokens)
        calls = [self._release(request, used, pace)]
        if request.admitted_ms:
            request.tokens = {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.completion_tokens}
            calls.append(ledger.settle(request.request_id, request.admitted_ms, used, _whose(request)))
            self._metrics.book(used.prompt_tokens, used.completion_tokens)
        # Last: as long as there is a reservation, somebody will see to it that all of this is done.
        usage = Usage(int(request.dispatched > 0), used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        calls += self._quotas.settle(request.request_id, usage, learn=request.outcome == "ok")
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
        served = self._settings.token_weights.of(used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        return self._permits.release(request.request_id, served, seconds_per_token)

    async def _counted(self, request: RequestScope, meter: Meter, known: ledger.Used) -> ledger.Used:
        """Of an answer that ended before its usage was told: the engine's own count, or else what is `known`."""
        if not self._engines.backend.keeps_accounts:
            return known
        with suppress(StoreAway):
            await self._store.run(self._release(request, known))  # who is next does not wait for the count
        began = time.monotonic()
        while (waited := time.monotonic() - began) < _COUNTING_SECONDS:
            try:
                if count := await self.account(request.request_id):
                    return ledger.Used(count.input, count.output, count.cached, failed=known.failed)
                if waited > _ARRIVING_SECONDS:
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
            streamed = {name: _so_far(opened) for name, opened in self._open.items()}
            if calls := self._quotas.progress(streamed):
                with suppress(StoreAway):
                    await self._store.run_all(*calls)

    async def _watch_room(self) -> None:
        kv_tokens, asked = 0, -_CACHE_SECONDS
        while True:
            if time.monotonic() - asked > _CACHE_SECONDS:
                asked = time.monotonic()
                with suppress(BackendError):
                    kv_tokens = (await self._engines.backend.load()).kv_tokens or 0
            self._permits.room = Room(self._capacity(), kv_tokens)
            await asyncio.sleep(_ROOM_SECONDS)

    def _capacity(self) -> int:
        """As many as the engine takes, or as few as keep everybody at the target speed."""
        most, target = self._settings.max_concurrency, self._settings.target_tokens_per_second
        by_speed = self._permits.speed.capacity_for(target) if target else None
        return most if by_speed is None else min(most, by_speed)


def queue_class(principal: Principal) -> QueueClass:
    """Who asks with a browser or an own token waits in person; a key is a program's, unless it says what it is for."""
    if principal.grant.queue_class is not None:
        return principal.grant.queue_class
    return "api" if principal.key_id else "interactive"


def _whose(request: RequestScope) -> ledger.Whose:
    principal = request.known()
    return ledger.Whose(principal.subject, request.model, principal.key_id, principal.acting)


def _note(request: RequestScope) -> str:
    return msgspec.json.encode(_whose(request)).decode()


def _used(request: RequestScope, meter: Meter, estimated_prompt: int) -> ledger.Used:
    """The account of a request, whatever became of it."""
    prompt_tokens, estimated = meter.prompt_tokens, 0
    if prompt_tokens is None:
        # A refused prompt cost nothing; one that was cut off was read, in whole or in part.
        was_read = request.dispatched and (meter.began or request.outcome in _CUT_OFF)
        prompt_tokens, estimated = (estimated_prompt, 1) if was_read else (0, 0)
    return ledger.Used(
        prompt_tokens, meter.completion_tokens, meter.cached_tokens, estimated, failed=int(request.outcome != "ok")
    )


def _so_far(opened: _Open) -> Usage:
    meter = opened.meter
    prompt = meter.prompt_tokens or (opened.prompt_tokens if meter.began else 0)
    return Usage(1, prompt, meter.cached_tokens, meter.completion_tokens)


def _seconds_per_token(request: RequestScope, meter: Meter) -> float:
    """Between tokens of one choice; 0 where this answer says nothing of it."""
    tokens = meter.completion_tokens / request.choices
    if request.outcome != "ok" or tokens < _TELLING_TOKENS:
        return 0.0
    return (time.monotonic() - meter.began_at) / (tokens - 1)
