"""Random lives of conversations against a simple model: the same is found, whatever is sent twice."""

from __future__ import annotations

import itertools
import random
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.chat import book as books
from gateway.chat.book import Book, Limits
from gateway.chat.forgetting import Forgetting
from gateway.chat.records import NO_PARAMETERS, Message, Parameters, new_conversation_id, new_message_id
from gateway.chat.search import listed
from gateway.errors import BadRequest, NotFound
from gateway.store.redis import Store
from gateway.store.scripts import Call
from gateway.store.sealing import Sealer

STEPS = 30
LIMITS = Limits(conversations=2, messages=8, bytes=6000, person_bytes=11000, life_seconds=3600)
SUBJECTS = ("usr_a", "usr_b")
WORDS = ("planning", "カンバン", "<b>", "", "x" * 1000)


class Twice(Store):
    """Every answer of a script is lost once, and asked for again."""

    async def run_all(self, *calls: Call) -> list[Any]:
        await super().run_all(*calls)
        return await super().run_all(*calls)


@dataclass
class Known:
    """A conversation as it should be."""

    title: str
    system: str
    parameters: Parameters
    model: str
    head: str | None = None
    messages: dict[str, Message] = field(default_factory=dict)
    said: int = 0


class Life:
    """Does the same to the book and to the model."""

    def __init__(self, seed: int, store: Store) -> None:
        self.random = random.Random(seed)
        self.book = Book(store, Sealer(b"k" * 32, "conversations"), LIMITS)
        self.forgetting = Forgetting(store)
        self.known: dict[str, dict[str, Known]] = {subject: {} for subject in SUBJECTS}
        self.clock = itertools.count(1)
        self.now = 0
        self.refused: set[str] = set()

    def tick(self) -> int:
        self.now = next(self.clock)
        return self.now

    def word(self) -> str:
        return self.random.choice(WORDS)

    def full(self, subject: str, *new: Any) -> bool:
        """Whether what is kept of them leaves no room for these."""
        kept = [
            value
            for known in self.known[subject].values()
            for value in (known.title, known.system, known.parameters, *known.messages.values())
        ]
        size = sum(len(self.book._seal("", "", value)) for value in (*kept, *new))
        return bool(self.known[subject]) and size > LIMITS.person_bytes

    def some(self, subject: str) -> str:
        """An id of theirs, of somebody else's, or of nobody's."""
        everybody = [name for known in self.known.values() for name in known]
        mine = list(self.known[subject])
        choices = [*mine, *mine, *everybody, new_conversation_id()]
        return self.random.choice(choices)

    async def create(self, subject: str) -> None:
        wanted = Known(self.word(), self.word(), Parameters(temperature=self.random.random()), self.word())
        fields = (wanted.title, wanted.model, wanted.system, wanted.parameters)
        full = self.full(subject, wanted.title, wanted.system, wanted.parameters)
        if full or len(self.known[subject]) == LIMITS.conversations:
            self.refused.add("room" if full else "conversations")
            with pytest.raises(BadRequest):
                await self.book.create(subject, *fields)
            return
        made = await self.book.create(subject, *fields)
        self.known[subject][made.id] = wanted
        wanted.said = self.now

    async def say(self, subject: str) -> None:
        conversation_id = self.some(subject)
        known = self.known[subject].get(conversation_id)
        question = Message(id=new_message_id(), parent=None, role="user", content=self.word(), created=1)
        reply = Message(id=new_message_id(), parent=question.id, role="assistant", content="", created=1)
        wanted = (known.messages if known else {}) | {question.id: question, reply.id: reply}
        size = sum(len(self.book._seal(conversation_id, *pair)) for pair in wanted.items())
        full = self.full(subject, question, reply)
        if known is None or full or len(wanted) > LIMITS.messages or size > LIMITS.bytes:
            if known is not None and not full:
                self.refused.add("messages" if len(wanted) > LIMITS.messages else "bytes")
            with pytest.raises(BadRequest if full or known is not None else NotFound):
                await self.book.say(subject, conversation_id, [question, reply])
            return
        await self.book.say(subject, conversation_id, [question, reply], model="new")
        known.messages = wanted
        known.head, known.model, known.said = reply.id, "new", self.now

    async def keep(self, subject: str) -> None:
        conversation_id = self.some(subject)
        known = self.known[subject].get(conversation_id)
        if known is None or not known.messages:
            message = Message(id=new_message_id(), parent=None, role="assistant", content="lost", created=1)
            assert not await self.book._store.run(self.book.replacing(conversation_id, message))
            return
        message = replace(self.random.choice(list(known.messages.values())), content=self.word(), state="done")
        assert await self.book._store.run(self.book.replacing(conversation_id, message))
        known.messages[message.id] = message

    async def change(self, subject: str) -> None:
        conversation_id, title = self.some(subject), self.word()
        known = self.known[subject].get(conversation_id)
        if known is None:
            with pytest.raises(NotFound):
                await self.book.change(subject, conversation_id, title=title)
            return
        if self.full(subject, "changed"):
            with pytest.raises(BadRequest):
                await self.book.change(subject, conversation_id, title=title, system="changed")
            return
        await self.book.change(subject, conversation_id, title=title, system="changed", parameters=NO_PARAMETERS)
        known.title, known.system, known.parameters = title, "changed", NO_PARAMETERS

    async def delete(self, subject: str) -> None:
        conversation_id = self.some(subject)
        if self.known[subject].pop(conversation_id, None) is None:
            with pytest.raises(NotFound):
                await self.forgetting.one(subject, conversation_id)
        else:
            await self.forgetting.one(subject, conversation_id)

    async def delete_all(self, subject: str) -> None:
        if self.random.random() < 0.1:
            await self.forgetting.all_of(subject)
            self.known[subject].clear()

    async def check(self, subject: str) -> None:
        mine = self.known[subject]
        newest = sorted(mine, key=lambda name: mine[name].said, reverse=True)
        assert [one.id for one in (await listed(self.book, subject, "", "", 100)).data] == newest
        sought = self.random.choice(("PLANNING", "ｶﾝﾊﾞﾝ"))
        holds = "planning" if sought == "PLANNING" else "カンバン"
        expected = [
            name
            for name in newest
            if holds in (mine[name].title, *(message.content for message in mine[name].messages.values()))
        ]
        assert [one.id for one in (await listed(self.book, subject, sought, "", 100)).data] == expected
        for name, known in mine.items():
            found = await self.book.find(subject, name)
            assert (found.title, found.system, found.parameters) == (known.title, known.system, known.parameters)
            assert (found.model, found.head) == (known.model, known.head)
            assert {message.id: message for message in found.messages} == known.messages
            for other in set(SUBJECTS) - {subject}:
                with pytest.raises(NotFound):
                    await self.book.find(other, name)


@pytest.mark.parametrize("seed", range(2))
async def test_what_is_found_is_what_was_done(redis_url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with aclosing(Twice(redis_url, 20.0)) as store:
        life = Life(seed, store)
        monkeypatch.setattr(books, "_now_ms", life.tick)
        often, seldom = (life.create, *[life.say] * 3, life.keep), (life.change, life.delete, life.delete_all)
        for _ in range(STEPS):
            for _ in range(5):
                await life.random.choice(often * 4 + seldom)(life.random.choice(SUBJECTS))
            await life.check(life.random.choice(SUBJECTS))
        assert life.refused == {"conversations", "messages", "bytes", "room"}
        for subject in SUBJECTS:
            await life.forgetting.all_of(subject)
        assert await store.command("KEYS", "*") == []
