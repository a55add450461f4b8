"""One answer while it is written: asked for as any request, told to readers ten times a second, kept at its end.

It goes on when its readers leave. Knows neither pipeline nor HTTP: how it is asked for is given to it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from gateway.chat.book import Book
from gateway.chat.events import Event, event, failure
from gateway.chat.journal import Journal, Written, written
from gateway.chat.records import Fault, Message, State, Usage
from gateway.chat.sink import Gathering
from gateway.errors import StoreAway
from gateway.scope import Message as AsgiMessage
from gateway.scope import Principal, RequestScope
from gateway.store.redis import Store
from gateway.store.scripts import Call

_PACE_SECONDS = 0.1  # readers are told no oftener
_BEAT_SECONDS = 0.5  # where nothing is said, the lease is renewed and orders are heard
_KEEPING_SECONDS = 300.0  # that an answer's end waits for Redis
_KEEPING_RETRY_SECONDS = 0.5

# As a client would ask: the request, and where its answer goes.
Serve = Callable[[RequestScope, Gathering], Coroutine[Any, Any, None]]

SHUT = Fault(
    message="The gateway was stopped in the middle of this answer. Continue it, or ask again.",
    type="server_error",
    code="gateway_stopped",
)
_BROKEN = Fault(
    message="Something went wrong here. Ask again, and tell an administrator if it goes on.",
    type="server_error",
    code="internal_error",
)


class Means(NamedTuple):
    """What answers are written with; the same for all."""

    store: Store
    book: Book
    journal: Journal
    serve: Serve
    unread_seconds: float  # that an answer goes on while nobody reads it, and that it can be read again after its end
    kept_seconds: float  # that a conversation is kept

    def life_seconds(self, conversation: str, *, ended: bool) -> float:
        """How long what readers were told stays: of one that breaks off until somebody looks at its conversation."""
        return self.kept_seconds if conversation and not ended else self.unread_seconds


class Order(NamedTuple):
    """What is to be answered, for whom."""

    principal: Principal
    client: str  # the address that it was asked from
    conversation: str  # empty: of none that is kept
    body: bytes  # a chat request
    message: Message  # the answer as it begins


class Running:
    """`go` writes the answer; readers look at `events`, and wait for `news` until it has `ended`."""

    def __init__(self, means: Means, order: Order, asked: Message | None) -> None:
        """`asked`: the question, where it is new."""
        self.order = order
        self.message = order.message
        self.writer = secrets.token_hex(16)
        self.readers = 0
        self.ended = False
        self.events: list[Event] = []
        self.news = asyncio.Event()
        self._means = means
        self._sink = Gathering()
        self._leave = asyncio.Event()
        self._body: bytes | None = order.body
        self._why = ""  # it was made to end: stopped, unread, deleted or shut
        self._moved = 1  # backends that were asked, as far as readers know
        self._written = 0  # events that are in Redis
        self._began = time.monotonic()
        self._request = self._as_request()
        told = {"message": self.message, "request_id": self._request.request_id}
        self._tell(event("started", **told | ({} if asked is None else {"user_message": asked})))

    def abandon(self) -> None:
        """Whatever became of `go`, readers wait no longer."""
        self.ended = True
        self.news.set()

    def stop(self, why: str = "stopped") -> None:
        """Within a step of the engine. What there is is kept."""
        self._why = self._why or why
        self._leave.set()

    async def go(self) -> None:
        """Returns once the answer is kept."""
        asking = asyncio.create_task(self._means.serve(self._request, self._sink))
        asking.add_done_callback(lambda _: self._sink.news.set())
        try:
            while not asking.done():
                await self._round(asking)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        self._gather()
        last = self._close()
        kept = await self._keep([*self.events, last])
        self.ended = True
        self._tell(last)
        deadline = time.monotonic() + _KEEPING_SECONDS
        while not kept and time.monotonic() < deadline:
            await asyncio.sleep(_KEEPING_RETRY_SECONDS)
            kept = await self._keep(self.events)

    async def _round(self, asking: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_BEAT_SECONDS):
                await self._sink.news.wait()
        self._sink.news.clear()
        self._gather()
        with suppress(StoreAway):  # it hears the rest once it is back
            (answer,) = await self._means.store.run_all(self._writing(self.events, last=False))
            self._heed(written(answer))
        await asyncio.wait({asking}, timeout=_PACE_SECONDS)

    def _gather(self) -> None:
        """What was said since the last time becomes events."""
        sink = self._sink
        if sink.place is not None:
            (position, seconds), sink.place = sink.place, None
            self._tell(event("queue", position=position, eta_seconds=seconds))
        reasoning, sink.reasoning = "".join(sink.reasoning), []
        text, sink.text = "".join(sink.text), []
        if (reasoning or text) and self._request.tries > self._moved:
            self._moved = self._request.tries
            self._tell(event("notice", kind="moved"))
        if reasoning:
            self._tell(event("delta", reasoning=reasoning))
        if text:
            self._tell(event("delta", text=text))
        so_far = self.message
        self.message = replace(so_far, content=so_far.content + text, reasoning=so_far.reasoning + reasoning)

    def _tell(self, told: Event) -> None:
        self.events.append(told)
        news, self.news = self.news, asyncio.Event()
        news.set()

    def _writing(self, events: Sequence[Event], *, last: bool) -> Call:
        means = self._means
        return means.journal.writing(
            self.message.id,
            self.writer,
            self._written + 1,
            events[self._written :],
            read_here=self.readers > 0,
            life_seconds=means.life_seconds(self.order.conversation, ended=last),
            last=last,
        )

    def _heed(self, told: Written) -> None:
        if told.there < 0:
            self.stop("deleted")
            return
        self._written = told.there
        if told.stop:
            self.stop()
        if told.unread_ms > self._means.unread_seconds * 1000:
            self.stop("unread")

    async def _keep(self, events: Sequence[Event]) -> bool:
        """Whether it is kept, the message and all that readers are told; or nobody wants it any more."""
        if self._why == "deleted":
            return True
        means, conversation = self._means, self.order.conversation
        # First, so that whoever reads that it has ended finds it in its conversation.
        calls = [means.book.replacing(conversation, self.message)] if conversation else []
        try:
            answers = await means.store.run_all(*calls, self._writing(events, last=True))
            if calls and not answers[0]:  # deleted meanwhile
                await means.journal.forget(self.message.id)
        except StoreAway:
            return False
        return True

    def _close(self) -> Event:
        """The message becomes what it stays, and the last event says so."""
        seconds = round(time.monotonic() - self._began, 3)
        usage = self._sink.usage or _booked(self._request)
        state, fault = self._outcome()
        reason = {"done": self._sink.finish_reason, "stopped": self._why}.get(state)
        self.message = replace(
            self.message, state=state, error=fault, usage=usage, seconds=seconds, finish_reason=reason
        )
        if fault is not None:
            return failure(fault)
        return event("done", state=state, finish_reason=reason, usage=usage, seconds=seconds)

    def _outcome(self) -> tuple[State, Fault | None]:
        if self._sink.fault is not None:
            return "failed", self._sink.fault
        if self._sink.answered:
            return "done", None
        if self._why == "shut":
            return "failed", SHUT
        return ("stopped", None) if self._why else ("failed", _BROKEN)

    # As the pipeline sees whoever asks ------------------------------------------------------------------------------

    def _as_request(self) -> RequestScope:
        return RequestScope(
            request_id=os.urandom(16).hex(),
            method="POST",
            path="/v1/chat/completions",
            headers={b"x-queue-updates": b"1"},
            header_count=1,
            header_bytes=16,
            receive=self._receive,
            send=_send,
            received=time.monotonic(),
            principal=self.order.principal,
            client=self.order.client,
        )

    async def _receive(self) -> AsgiMessage:
        """The body; and who asked leaves once this is to stop."""
        if self._body is None:
            await self._leave.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _booked(request: RequestScope) -> Usage | None:
    """Of an answer that ended before its engine had told."""
    tokens = request.tokens
    return Usage(**{name: tokens[name] for name in Usage.__struct_fields__}) if tokens else None


async def _send(message: AsgiMessage) -> None:
    """Whatever is said goes by way of the sink."""
