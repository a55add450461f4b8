"""Random schedules against a simple model: the same turns are given, whoever dies and whatever is sent twice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.queueing.ask import CLASSES, Answer, Ask, Choice, Lost, Room, State
from gateway.store.scripts import Call
from tests.gateway.queueing.conftest import Line, MakeLine, limits, wanted
from tests.gateway.queueing.model import Model, place_of

STEPS = 250


class Granted(msgspec.Struct):
    backend: str


class Schedule:
    """Does the same to the queue and to the model."""

    def __init__(self, seed: int, make_line: MakeLine) -> None:
        self.random = random.Random(seed)
        self.backends = "a" if seed % 4 == 0 else "abc"
        # Half-lives so short that service really fades, bounds so short that people are really rescued.
        changes: dict[str, float] = {
            # However slow the machine is, nobody dies or is refused but by this schedule.
            "heartbeat_seconds": 1000,
            "wait_seconds": 3600,
            "half_life_seconds": self.random.choice([0.5, 5, 1_000_000]),
            "starvation_seconds": self.random.choice([0.01, 0.05, 3600]),
        }
        rooms = {name: self.room() for name in self.backends}
        self.line: Line = make_line(rooms=rooms, **changes)
        self.model = Model(limits(**changes), rooms, self.granted_at)
        self.known: dict[str, Ask] = {}

    def room(self) -> Room:
        cache, each = self.random.choice([0, 0, 300, 1000]), self.random.choice([0.0, 0.0, 0.1])
        return Room(self.random.choice([1, 2, 3, 5]), cache, each)

    def choices(self) -> tuple[Choice, ...]:
        names = self.random.sample(self.backends, self.random.randint(1, len(self.backends)))
        return tuple(Choice(name, self.random.choice([0.0, 0.0, 0.2])) for name in names)

    def granted_at(self, request_id: str) -> str:
        packed = self.line.redis.hget("{sekisho}:grants:line", request_id)
        assert isinstance(packed, bytes), f"{request_id} should have its turn"
        return msgspec.msgpack.decode(packed, type=Granted).backend

    async def send(self, call: Call) -> list[tuple[Any, int]]:
        """Once, or twice as when the answer was lost. Each answer with the time it was made at."""
        calls = [call] * self.random.choice([1, 1, 2])
        answers = await self.line.store.run_all(*calls)
        self.model.epoch = int(self.line.state("epoch"))
        return [(answer, answer if isinstance(answer, int) else answer[3]) for answer in answers]

    async def step(self) -> None:
        actions = [self.come, self.ask_again, self.end, self.move, self.die, self.change_rooms]
        before = {name: len(self.model.at(name)) for name in self.backends}
        await self.random.choices(actions, [40, 15, 40, 10, 5, 3])[0]()
        self.check(before)

    async def come(self) -> None:
        ask = wanted(
            f"r{len(self.known)}",
            f"s{self.random.randrange(6)}",
            self.random.choice(CLASSES),
            tokens=self.random.uniform(1, 1000),
            kv_tokens=self.random.randrange(1, 400),
            choices=self.choices(),
        )
        await self.ask(ask)

    def alive(self) -> list[str]:
        return sorted({ask.request_id for ask in self.model.line} | self.model.running.keys())

    async def ask_again(self) -> None:
        if alive := self.alive():
            ask = self.known[self.random.choice(alive)]
            await self.ask(replace(ask, choices=self.choices()) if self.random.random() < 0.5 else ask)

    async def ask(self, ask: Ask) -> None:
        self.known[ask.request_id] = ask
        answers = await self.send(self.line.permits.acquire(ask))
        for _, now in answers:
            self.model.ask(ask, now)
        await self.compare(ask, answers[-1][0])

    async def move(self) -> None:
        if alive := self.alive():
            lost = self.known[self.random.choice(alive)]
            ask = replace(lost, choices=self.choices(), tokens=self.random.uniform(1, 1000))
            self.known[ask.request_id] = ask
            served = self.random.uniform(0, 1500)
            answers = await self.send(self.line.permits.move(ask, served))
            self.model.move(ask, served, answers[0][1])
            for _, now in answers:
                self.model.ask(ask, now)
            await self.compare(ask, answers[-1][0])

    async def compare(self, ask: Ask, answer: list[Any]) -> None:
        told = Answer.of(answer)
        held = self.model.running.get(ask.request_id)
        if held is not None:
            assert (told.state, told.backend) == (State.GRANTED, held.backend)
        elif self.model.is_lost(ask):
            assert told.state is State.LOST
            with pytest.raises(Lost):
                await self.line.permits.wait(ask, answer)
        else:
            assert told.state is State.WAITING
            assert 1 <= told.place <= len(self.model.line)

    async def end(self) -> None:
        """Of one that runs, waits, has ended or is dead."""
        if self.known:
            name = self.random.choice(list(self.known)[-20:])
            served = self.random.uniform(0, 1500)
            for _, now in await self.send(self.line.permits.release(name, served)):
                self.model.release(name, served, now)

    async def die(self) -> None:
        dead = [name for name in self.known if self.random.random() < 0.2]
        self.line.kill(*dead)
        self.model.dead = set(dead) & (self.line.running() | set(self.line.members("beats")))
        await self.end()
        self.model.dead = set()

    async def change_rooms(self) -> None:
        """Backends come and go, are drained, and have more or less room than before."""
        rooms = {name: self.room() for name in self.backends if self.random.random() < 0.8}
        drained = {name: replace(room, capacity=0) for name, room in rooms.items() if self.random.random() < 0.2}
        self.line.permits.rooms = self.model.rooms = rooms | drained
        await self.end()

    def check(self, before: dict[str, int]) -> None:
        line, model = self.line, self.model
        assert line.running() == set(model.running)
        assert sorted(line.members("beats")) == sorted(ask.request_id for ask in model.line)
        assert len(line.members("line")) == len(model.line)
        due = {(CLASSES[int(key[0]) - 1], *key[1:].split("\0")) for key in line.members("due")}
        assert due == {(klass, subject, ",".join(names)) for klass, subject, names in map(place_of, model.line)}
        for name in self.backends:
            held = [held.ask.kv_tokens for held in model.at(name)]
            assert line.at(name) == (len(held), sum(held))
            room = model.rooms.get(name, Room(0))
            assert len(held) <= max(room.capacity, before[name])
            assert not room.kv_tokens or sum(held) <= room.kv_tokens or len(held) <= max(1, before[name])
        stored = {(CLASSES[int(key[0]) - 1], key[1:]): value for key, value in line.service().items()}
        assert stored == pytest.approx(model.service)
        self.check_that_nothing_idles()

    def check_that_nothing_idles(self) -> None:
        """Nobody could run where nobody else waits."""
        for ask in self.model.line:
            others = (choice for other in self.model.line if other is not ask for choice in other.choices)
            assert not self.model.free_to(ask, {choice.backend for choice in others}), ask

    async def finish(self) -> None:
        for name in self.known:
            await self.line.release(name)
        assert self.line.is_empty()
        assert [self.line.state(f"expected{number}") for number in (1, 2, 3)] == pytest.approx([0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
async def test_every_turn_goes_where_the_rules_say(seed: int, make_line: MakeLine) -> None:
    schedule = Schedule(seed, make_line)
    for _ in range(STEPS):
        await schedule.step()
    await schedule.finish()
