"""All answers that this gateway writes, and the way to those of others: begun, read, stopped, mended. Knows no HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from msgspec.structs import replace

from gateway.chat.events import LAST, Event, Numbered, failure, said
from gateway.chat.journal import Part
from gateway.chat.records import Conversation, Fault, Message
from gateway.chat.running import Means, Order, Running
from gateway.errors import Conflict, DoorError, NotFound, StoreAway

log = logging.getLogger("sekisho.chat")

# How often what another gateway writes is looked for.
_LOOK_SECONDS = 0.15
# A lease that has run out may be renewed yet: Redis was away, and its writer was not.
_DOUBT_SECONDS = 2.0
# A reader is kept through so long an absence of Redis.
_AWAY_SECONDS = 120.0
_CLOSING_SECONDS = 5.0

DIED = Fault(
    message="The gateway that wrote this answer is gone. Continue it, or ask again.",
    type="server_error",
    code="gateway_gone",
)


class Answers:
    """`aclose` after use. Raises StoreAway."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, order: Order, question: Message | None = None, title: str | None = None) -> None:
        """`question`: where it is new; `title`: of a conversation that has none yet.

        Raises Conflict where this answer is being written already, and what the book raises.
        """
        running = Running(self._means, order, question)
        subject, conversation, message = order.principal.subject, order.conversation, order.message
        life = self._means.life_seconds(conversation, ended=False)
        if not await self._means.journal.open(message.id, running.writer, subject, conversation, life):
            raise Conflict("This answer is still being written. Stop it first.", code="still_running")
        if conversation:
            said = [message] if question is None else [question, message]
            more = {} if title is None else {"title": title}
            try:
                await self._means.book.say(subject, conversation, said, model=message.model, **more)
            except DoorError:
                with suppress(StoreAway):
                    await self._means.journal.forget(message.id)
                raise
        self._running[message.id] = running
        task = asyncio.create_task(self._run(running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def running(self) -> int:
        """How many are being written here, whether anybody reads them or not."""
        return len(self._tasks)

    async def aclose(self) -> None:
        """What is being written ends here, and says so."""
        for running in self._running.values():
            running.stop("shut")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def stop(self, subject: str, answer_id: str) -> None:
        """Whoever writes it. Raises NotFound where it is not theirs, or ended a while ago."""
        running = self._mine(subject, answer_id)
        if running is None:
            await self._means.journal.stop(subject, answer_id)
        else:
            running.stop()

    async def read(self, subject: str, answer_id: str, first: int) -> AsyncGenerator[list[Numbered], None]:
        """What readers are told from number `first` on, until its end. Raises NotFound before the first of it."""
        running = self._mine(subject, answer_id)
        if running is not None:
            return _here(running, first)
        part = await self._means.journal.read(subject, answer_id, first)
        return self._elsewhere(subject, answer_id, first, part)

    async def settled(self, subject: str, conversation: Conversation) -> Conversation:
        """With what was said, in the place of an answer whose gateway has died."""
        messages = [
            await self._settled(subject, conversation.id, message) if message.state == "running" else message
            for message in conversation.messages
        ]
        return replace(conversation, messages=tuple(messages))

    async def _run(self, running: Running) -> None:
        try:
            await running.go()
        except Exception:
            log.exception("the answer %s cannot be written", running.message.id)
        finally:
            del self._running[running.message.id]
            running.abandon()

    def _mine(self, subject: str, answer_id: str) -> Running | None:
        running = self._running.get(answer_id)
        return running if running is not None and running.order.principal.subject == subject else None

    async def _settled(self, subject: str, conversation_id: str, message: Message) -> Message:
        if (running := self._mine(subject, message.id)) is not None:
            return running.message
        try:
            part, so_far = await self._so_far(subject, message.id)
        except NotFound:  # it died before it could say a word, or there is nothing left of what it said
            return await self._mend(conversation_id, message)
        if part.ended:  # since the conversation was read
            now = await self._means.book.find(subject, conversation_id)
            return next((one for one in now.messages if one.id == message.id), message)
        so_far = so_far or message
        return so_far if part.alive else await self._mend(conversation_id, so_far)

    async def _so_far(self, subject: str, answer_id: str) -> tuple[Part, Message | None]:
        """All that readers were told of it, as a message."""
        journal = self._means.journal
        part = await journal.read(subject, answer_id, 1)
        events = part.events
        while part.events:
            part = await journal.read(subject, answer_id, len(events) + 1)
            events += part.events
        return part, said(events)

    async def _mend(self, conversation_id: str, so_far: Message) -> Message:
        """Kept as it stands; should its gateway come back after all, that has the last word."""
        mended = replace(so_far, state="failed", error=DIED)
        await self._means.store.run(self._means.book.replacing(conversation_id, mended))
        return mended

    async def _elsewhere(
        self, subject: str, answer_id: str, first: int, part: Part
    ) -> AsyncGenerator[list[Numbered], None]:
        """What another gateway writes, or has written."""
        alive = time.monotonic()
        while True:
            alive = time.monotonic() if part.alive else alive
            if part.events:
                yield _numbered(part.events, first)
                first += len(part.events)
                if part.events[-1].name in LAST:
                    return
            elif part.ended:
                return
            elif time.monotonic() - alive > _DOUBT_SECONDS:
                yield [Numbered(first, await self._died(subject, answer_id, part.conversation))]
                return
            else:
                await asyncio.sleep(_LOOK_SECONDS)
            part = await self._look(subject, answer_id, first)

    async def _look(self, subject: str, answer_id: str, first: int) -> Part:
        """Through an absence of Redis; raises StoreAway where it is too long."""
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                return await self._means.journal.read(subject, answer_id, first)
            except StoreAway:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)

    async def _died(self, subject: str, answer_id: str, conversation_id: str) -> Event:
        _, so_far = await self._so_far(subject, answer_id)
        if conversation_id and so_far is not None:
            await self._mend(conversation_id, so_far)
        return failure(DIED)


async def _here(running: Running, first: int) -> AsyncGenerator[list[Numbered], None]:
    running.readers += 1
    try:
        while True:
            news, ended = running.news, running.ended
            if some := running.events[first - 1 :]:
                yield _numbered(some, first)
                first += len(some)
            elif ended:
                return
            else:
                await news.wait()
    finally:
        running.readers -= 1


def _numbered(events: list[Event], first: int) -> list[Numbered]:
    return [Numbered(first + index, told) for index, told in enumerate(events)]
