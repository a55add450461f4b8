"""May this request go in, when, and where to: its quota and its turn are asked for together.

Works for the pipeline alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from backends.estimate import size_of
from gateway.booking import Booking, Opened, note
from gateway.errors import EngineAway, QueueFull, StoreAway
from gateway.queueing.ask import Answer, Ask, Choice, Lost, State, Turn
from gateway.queueing.permits import OnPlace
from gateway.quotas.headers import rate_headers
from gateway.quotas.plan import Plan, Size
from gateway.quotas.service import QuotaService
from gateway.rooms import Rooms
from gateway.routing.journey import Journey
from gateway.routing.router import Way
from gateway.scope import GENERATES, Principal, QueueClass, RequestScope
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.streaming.meter import Meter

log = logging.getLogger("sekisho.admission")

# Lines and choices of one request: tiers, and backends that leave while it waits.
_CHANGES = 10


class Admission:
    """Of all requests of this gateway."""

    def __init__(self, settings: Settings, store: Store, quotas: QuotaService, rooms: Rooms, booking: Booking) -> None:
        self._settings = settings
        self._store = store
        self._quotas = quotas
        self._rooms = rooms
        self._booking = booking
        self._local: set[str] = set()  # admitted while Redis was away

    async def admit(self, request: RequestScope, meter: Meter, journey: Journey, on_place: OnPlace | None) -> None:
        """Returns when it is the request's turn, at `request.backend`. Raises what says why not.

        However it ends, `settle` follows.
        """
        plan = await self._plan(request)
        ways = journey.ways()
        opened = Opened(request, meter, self._ask(request, plan, ways[0]))
        self._booking.open[request.request_id] = opened  # from here on it may hold something
        request.line = ways[0].line
        calls = (self._quotas.reserve(plan, note(request)), self._rooms.line(request.line).acquire(opened.ask))
        try:
            reservation, place = await self._store.run_all(*calls)
        except StoreAway as away:
            try:
                self._admit_locally(request, plan, ways[0])
            except StoreAway:
                if away.unasked:
                    self._booking.forget(request)
                raise
            return
        reserved = self._quotas.reserved(plan, reservation)
        for refusal in reserved.shadow:
            log.info("request %s would have been refused by policy %s", request.request_id, refusal)
        request.answer_headers += rate_headers(reserved.requests, reserved.tokens)
        asked = time.monotonic()
        turn = await self._turn(opened, journey, ways, place, on_place)
        request.admitted_ms = turn.granted_ms
        if turn.waited:
            request.queued_seconds = time.monotonic() - asked
        request.answer_headers.append((b"x-queue-wait-ms", str(round(request.queued_seconds * 1000)).encode()))

    async def move(self, request: RequestScope, journey: Journey) -> None:
        """Its backend was lost: returns when it has a turn at another. Raises what says why not."""
        opened = self._booking.open[request.request_id]
        ways = journey.ways()
        served, before = self._booking.served(opened), self._rooms.line(request.line)
        opened.ask = replace(opened.ask, choices=_choices(ways[0]))
        if ways[0].line == request.line:
            place = await self._store.run(before.move(opened.ask, served))
        else:
            place = await self._change_lines(opened, ways[0], served)
        await self._turn(opened, journey, ways, place, None)

    async def allows(self, principal: Principal, model: str) -> bool:
        """Whether no policy keeps the model from them. Raises StoreAway."""
        return await self._quotas.allows(principal, model)

    def estimate(self, request: RequestScope) -> None:
        """Tokens of its prompt, by what was learned of its model."""
        request.prompt_size = size_of(request.body)
        request.prompt_estimate = self._booking.estimates.tokens(request.model, request.prompt_size)

    async def settle(self, request: RequestScope) -> None:
        """Give back what it holds, and book what it used."""
        self._local.discard(request.request_id)
        await self._booking.settle(request)

    async def _turn(
        self, opened: Opened, journey: Journey, ways: list[Way], place: Sequence[Any], on_place: OnPlace | None
    ) -> Turn:
        """Wait in the first line, or go on to the next where this one is too long."""
        request = opened.request
        for _ in range(_CHANGES):
            permits = self._rooms.line(request.line)
            if len(ways) > 1 and (reason := self._too_long(Answer.of(place))):
                ways = ways[1:]
                request.overflow = reason
                place = await self._change_lines(opened, ways[0], 0.0)
                continue
            try:
                turn = await permits.wait(opened.ask, place, on_place)
            except Lost:  # none of its backends is there any more; in the same line it keeps its place
                ways = journey.ways()
                place = await self._ask_anew(opened, ways[0])
                continue
            request.backend = turn.backend
            return turn
        raise EngineAway("The engines for this model come and go. Try again shortly.")

    async def _ask_anew(self, opened: Opened, way: Way) -> Sequence[Any]:
        if way.line != opened.request.line:
            return await self._change_lines(opened, way, 0.0)
        opened.ask = replace(opened.ask, choices=_choices(way))
        place: Sequence[Any] = await self._store.run(self._rooms.line(way.line).acquire(opened.ask))
        return place

    async def _change_lines(self, opened: Opened, way: Way, served: float) -> Sequence[Any]:
        """Leave one line, and ask in another."""
        request = opened.request
        left = self._rooms.line(request.line).release(request.request_id, served)
        request.line = way.line
        opened.ask = replace(opened.ask, choices=_choices(way))
        answers = await self._store.run_all(left, self._rooms.line(way.line).acquire(opened.ask))
        found: Sequence[Any] = answers[1]
        return found

    def _too_long(self, answer: Answer) -> str:
        """Why a request had better be elsewhere; empty where it may stay."""
        if answer.state in (State.FULL, State.LATE):
            return "the line is full"
        seconds = answer.eta_ms / 1000
        if answer.state is State.WAITING and seconds > self._settings.overflow_after:
            return f"a wait of {seconds:.0f} s"
        return ""

    async def _plan(self, request: RequestScope) -> Plan:
        size = Size(request.prompt_estimate, request.output_limit, request.context, request.form in GENERATES)
        plan = await self._quotas.plan(request.request_id, request.known(), request.model, size)
        if plan.output_cap:
            name = "max_completion_tokens" if request.form == "chat" else "max_tokens"
            request.fields[name] = msgspec.Raw(b"%d" % max(1, plan.output_cap // request.choices))
        return plan

    def _admit_locally(self, request: RequestScope, plan: Plan, way: Way) -> None:
        """This gateway's part of every limit and of the engines, where the settings say so. Raises StoreAway else."""
        self._quotas.reserve_locally(plan)
        permits = self._rooms.line(way.line)
        capacity = sum(room.capacity for room in permits.rooms.values())
        if permits.held + len(self._local) >= max(1, capacity // self._settings.replicas):
            raise QueueFull(
                "The engine is busy, and nobody can wait in line at the moment. Try again in a few seconds."
            )
        self._local.add(request.request_id)
        request.backend = way.choices[0].backend
        request.admitted_ms = round(time.time() * 1000)

    def _ask(self, request: RequestScope, plan: Plan, way: Way) -> Ask:
        principal, output = request.known(), self._quotas.expected_output(plan)
        return Ask(
            request.request_id,
            queue_class(principal),
            principal.subject,
            tokens=self._settings.token_weights.of(plan.prompt, 0, output),
            choices=_choices(way),
            kv_tokens=plan.prompt + output,
            reserved=True,
            model=request.model,
        )


def queue_class(principal: Principal) -> QueueClass:
    """Who asks with a browser or an own token waits in person; a key is a program's, unless it says what it is for."""
    if principal.grant.queue_class is not None:
        return principal.grant.queue_class
    return "api" if principal.key_id else "interactive"


def _choices(way: Way) -> tuple[Choice, ...]:
    return tuple(Choice(*choice) for choice in way.choices)
