"""One answer from one backend after another: what the client sees is one clean answer, or one clear error.

Before the first token a failed try is simply made again elsewhere; after it the answer goes on from what was said.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from backends.base import Fields, Upstream
from backends.errors import BackendError, Rejected, TimedOut, Unreachable
from gateway import recording
from gateway.admission import Admission, queue_class
from gateway.errors import ClientGone, DoorError, EngineAway, EngineSilent, ModelNotFound, from_backend
from gateway.overflow import Overflow
from gateway.routing.fleet import Fleet
from gateway.routing.journey import Journey
from gateway.routing.member import Member
from gateway.routing.mending import mendable
from gateway.scope import GENERATES, Form, RequestScope
from gateway.settings import Settings
from gateway.streaming.continuation import Transcript
from gateway.streaming.edit import Edit, renamed
from gateway.streaming.meter import Meter
from gateway.streaming.pump import pump
from gateway.streaming.relay import Sink
from gateway.streaming.watch import Patience
from gateway.streaming.whole import send_whole, whole
from gateway.telemetry import gen_ai, logs
from gateway.telemetry.metrics import Metrics

log = logging.getLogger("sekisho.attempts")

# The only paths of an engine that are ever asked for a user.
PATHS: dict[Form, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
}
_LARGEST_WHOLE_ANSWER = 256 * 2**20  # 2,048 embeddings of 4,096 numbers, as text
_RECOVERY_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Means:
    """What attempts are made with; the same for all requests."""

    settings: Settings
    fleet: Fleet
    admission: Admission
    overflow: Overflow
    metrics: Metrics


class Attempts:
    """Of one request, which has a turn."""

    def __init__(self, means: Means, request: RequestScope, meter: Meter, sink: Sink, journey: Journey) -> None:
        self._means = means
        self._request = request
        self._meter = meter
        self._sink = sink
        self._journey = journey
        self._transcript = Transcript()
        self._records = request.known().tenant in means.settings.record_prompts_of
        self._failures: list[BackendError] = []
        self._asked: set[str] = set()  # backends
        # What is sent next, and what is changed in the answer to it.
        self._fields: Fields = request.fields
        self._edit: Edit | None = None
        self._broke: DoorError | None = None  # the answer, first
        self._said = 0  # tokens that are in it already

    async def answer(self) -> None:
        """The whole answer into the sink. Raises a DoorError where no backend can give it."""
        try:
            await self._until_answered()
        finally:
            if self._records:
                logs.recorded(self._request, self._recorded())

    async def _until_answered(self) -> None:
        while True:
            try:
                await self._once()
                return
            except ClientGone:
                raise
            except DoorError as fault:
                failure = fault.__cause__
                if not isinstance(failure, BackendError):
                    raise
                self._note(failure)
                # How an answer broke off says more than why another engine could not go on with it.
                self._broke = self._broke or (fault if self._meter.began else None)
                if not await self._prepare_another(failure):
                    raise self._broke or fault from failure
                with self._request.span.child("queue") as span:
                    await self._means.admission.move(self._request, self._journey)
                    span.set({"sekisho.backend": self._request.backend})

    # One attempt ---------------------------------------------------------------------------------------------------

    async def _once(self) -> None:
        request, member = self._request, self._means.fleet.members.get(self._request.backend)
        if member is None or request.model not in member.names:
            raise EngineAway("The engine has just been taken away. Try again.") from Unreachable("no longer there")
        await self._means.overflow.note(request, self._journey.wish.data_class)
        started, running, believed = time.monotonic(), member.in_flight, self._warm_at(member)
        request.dispatched = request.dispatched or started
        request.tries += 1
        # An engine may still be busy with an attempt that it failed at; no two of its requests share an id.
        again = f"again-{len(self._failures)}-" if request.backend in self._asked else ""
        self._asked.add(request.backend)
        request.asked_as, request.said_before = again + request.request_id, self._said
        expected = member.speed.seconds(request.prompt_estimate * (1 - believed), running)
        self._meter.on_progress = lambda: self._first_token(member, started, expected)
        with self._traced(member, started) as traceparent, member.used():
            upstream = await self._open(member, traceparent)
            try:
                await self._read(member, upstream, started)
            finally:
                request.first_token, request.upstream_ended = self._meter.began_at, time.monotonic()
                self._means.metrics.upstream.observe(request.upstream_ended - started, member.name)
                await upstream.aclose()
        self._learn(member, started, running, believed)

    def _warm_at(self, member: Member) -> float:
        """The part of the prompt that it is believed to hold."""
        chain = self._journey.wish.chain
        return self._means.fleet.prefixes.warm(chain).get(member.name, 0.0) if chain.links else 0.0

    async def _open(self, member: Member, traceparent: str) -> Upstream:
        request, seconds = self._request, self._means.settings.first_token_timeout
        body = _body(request, self._fields, member.names[request.model])
        try:
            # An engine may hold its status back until the first token; the same patience covers both.
            async with asyncio.timeout(seconds):
                return await member.backend.open(PATHS[request.form], body, self._headers(traceparent))
        except BackendError as error:
            raise from_backend(error) from error
        except TimeoutError:
            raise EngineSilent(f"No token came within {seconds:g} seconds.") from TimedOut("no status")

    def _headers(self, traceparent: str) -> dict[str, str]:
        """All that engines may be told beside the body; each adapter passes on what its engine understands."""
        request = self._request
        principal = request.known()
        headers = {
            "x-request-id": request.asked_as,
            "x-sekisho-cache-salt": principal.tenant,
            "x-sekisho-class": queue_class(principal),
        }
        return headers | {"traceparent": traceparent} if traceparent else headers

    async def _read(self, member: Member, upstream: Upstream, started: float) -> None:
        request, settings = self._request, self._means.settings
        spent = time.monotonic() - started  # what the engine took to send its status
        patience = Patience(
            first_token=max(0.0, settings.first_token_timeout - spent),
            stall=settings.stall_timeout,
            client=settings.client_stall_timeout,
        )
        edit = self._edit or renamed(member.names[request.model], request.model)
        if request.form not in GENERATES:
            body = await whole(upstream, self._meter, patience, _LARGEST_WHOLE_ANSWER, edit)
            self._sink.committed = self._sink.answered = True
            await send_whole(request, body)
            return
        await pump(
            upstream,
            self._meter,
            self._sink,
            patience,
            wants_usage=request.wants_usage or not request.streaming,
            transcript=self._transcript,
            edit=edit,
        )

    # What is said of it --------------------------------------------------------------------------------------------

    @contextmanager
    def _traced(self, member: Member, started: float) -> Iterator[str]:
        """The attempt's span around it; gives the traceparent for the engine."""
        request, meter, model = self._request, self._meter, member.names[self._request.model]
        with request.span.child(f"{gen_ai.OPERATIONS[request.form]} {model}", "client") as span:
            if not span.recording:
                yield span.traceparent
                return
            span.set(gen_ai.asked(request, self._fields, member.name, member.backend.kind, model))
            try:
                yield span.traceparent
            finally:
                said = meter.completion_tokens - self._said
                first = max(0.0, meter.began_at - started)  # an answer that goes on began before this attempt
                reasons = meter.finish_reasons.values()
                span.set(gen_ai.answered(reasons, meter.prompt_tokens, meter.cached_tokens, said, first))
                if self._records:
                    span.set(recording.attributes(self._recorded()))

    def _recorded(self) -> recording.Messages:
        return recording.messages(self._request, self._transcript.events)

    # What is learned from it ---------------------------------------------------------------------------------------

    def _first_token(self, member: Member, started: float, expected: float) -> None:
        """It works, and holds the prompt: that is known before it has said all."""
        now = time.monotonic()
        self._means.fleet.prefixes.note(self._journey.wish.chain, member.name, member.load.kv_tokens)
        member.health.observe_first_token(now, now - started, expected)
        self._means.fleet.note(member)

    def _learn(self, member: Member, started: float, running: int, believed: float) -> None:
        """From an answer that came to its end."""
        meter = self._meter
        self._means.metrics.attempts.add(member.name, "ok")
        prompt = meter.prompt_tokens or self._request.prompt_estimate
        if not self._failures:  # of a part of an answer nobody knows what of its prompt was cached
            self._means.fleet.prefixes.learn(member.name, believed, meter.cached_tokens / max(1, prompt))
            member.speed.learn(prompt - meter.cached_tokens, running, meter.began_at - started)

    def _note(self, failure: BackendError) -> None:
        request, name = self._request, self._request.backend
        log.info("request %s: backend %s: %s", request.request_id, name, failure)
        self._means.metrics.attempts.add(name, type(failure).__name__.lower())
        if (member := self._means.fleet.members.get(name)) is not None:
            member.health.observe_failure(failure, request.request_id, time.monotonic())
            self._means.fleet.note(member)
            # Its end may be why, and while it starts anew each try would be one of few.
            if member.watch is not None and (not isinstance(failure, Rejected) or failure.status == 503):
                member.watch.hurry()

    # The next one --------------------------------------------------------------------------------------------------

    async def _prepare_another(self, failure: BackendError) -> bool:
        """Whether there is something to ask, and somebody to be asked. Raises ModelNotFound where the model is gone."""
        request, journey = self._request, self._journey
        if isinstance(failure, Rejected) and failure.status == 404:
            await self._look_for_the_model()
        worth_it = mendable(failure, self._failures)
        self._failures.append(failure)
        journey.failed.add(request.backend)
        if not worth_it or len(self._failures) >= self._means.settings.max_tries:
            return False
        how = "again"
        if self._meter.began:
            going_on = self._transcript.continuation(request.fields, request.form)
            if going_on is None:
                return False
            self._fields, self._edit, self._said, how = going_on.fields, going_on.edit, going_on.tokens, "continued"
            journey.go_on_with(going_on.fields)
        if not await self._until_open(self._means.settings.recovery_timeout if how == "continued" else 0.0):
            return False
        log.warning("request %s is %s elsewhere: backend %s failed", request.request_id, how, request.backend)
        self._means.metrics.moved.add(how)
        return True

    async def _look_for_the_model(self) -> None:
        await self._means.fleet.look()
        if not self._means.fleet.serving(self._request.model):
            raise ModelNotFound(f"The model `{self._request.model[:200]}` is not served any more.")

    async def _until_open(self, seconds: float) -> bool:
        """Whether anybody takes the request now or, where it is in the middle of its answer, in so many seconds."""
        deadline = time.monotonic() + seconds
        while not self._journey.is_open():
            if time.monotonic() >= deadline or not self._journey.is_possible():
                return False
            self._journey.failed.clear()  # whoever comes back first
            await asyncio.sleep(_RECOVERY_LOOK_SECONDS)
        return True


def _body(request: RequestScope, fields: Fields, model: str) -> bytes:
    """What the engine gets. It always streams to the door where it can, and always counts."""
    sent = {**fields, "model": msgspec.Raw(msgspec.json.encode(model))}
    if request.form in GENERATES and not (request.streaming and request.wants_usage):
        options = msgspec.json.decode(fields.get("stream_options", b"null")) or {}
        told = msgspec.json.encode(options | {"include_usage": True})
        sent |= {"stream": msgspec.Raw(b"true"), "stream_options": msgspec.Raw(told)}
    return msgspec.json.encode(sent)
