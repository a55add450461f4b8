"""Random schedules against a simple model: the same turns are given, whoever dies and whatever is sent twice."""

from __future__ import annotations

import random

import pytest

from gateway.queueing.ask import CLASSES, Answer, Ask, Room, State
from gateway.store.scripts import Call
from tests.gateway.queueing.conftest import Line, MakeLine, limits, wanted
from tests.gateway.queueing.model import Model

STEPS = 250


class Schedule:
    """Does the same to the queue and to the model."""

    def __init__(self, seed: int, make_line: MakeLine) -> None:
        self.random = random.Random(seed)
        room = Room(self.random.choice([1, 2, 3, 5, 8]), self.random.choice([0, 0, 300, 1000]))
        # Half-lives so short that service really fades, bounds so short that people are really rescued.
        changes: dict[str, float] = {
            # However slow the machine is, nobody dies or is refused but by this schedule.
            "heartbeat_seconds": 1000,
            "wait_seconds": 3600,
            "half_life_seconds": self.random.choice([0.5, 5, 1_000_000]),
            "starvation_seconds": self.random.choice([0.01, 0.05, 3600]),
        }
        self.line: Line = make_line(capacity=room.capacity, kv_tokens=room.kv_tokens, **changes)
        self.model = Model(limits(**changes), room, epoch=0)
        self.known: list[Ask] = []

    async def send(self, call: Call) -> list[tuple[object, int]]:
        """Once, or twice as when the answer was lost. Each answer with the time it was made at."""
        calls = [call] * self.random.choice([1, 1, 2])
        answers = await self.line.store.run_all(*calls)
        return [(answer, answer if isinstance(answer, int) else answer[3]) for answer in answers]

    async def step(self) -> None:
        action = self.random.choices([self.come, self.ask_again, self.end, self.die], [40, 15, 40, 5])[0]
        await action()
        if not self.model.epoch:
            self.model.epoch = int(self.line.state("epoch"))
        self.check()

    async def come(self) -> None:
        ask = wanted(
            f"r{len(self.known)}",
            f"s{self.random.randrange(6)}",
            self.random.choice(CLASSES),
            tokens=self.random.uniform(1, 1000),
            kv_tokens=self.random.randrange(1, 400),
        )
        self.known.append(ask)
        await self.ask(ask)

    async def ask_again(self) -> None:
        alive = [ask for ask in self.known if ask in self.model.line or ask.request_id in self.model.running]
        if alive:
            await self.ask(self.random.choice(alive))

    async def ask(self, ask: Ask) -> None:
        answers = await self.send(self.line.permits.acquire(ask))
        if not self.model.epoch:
            self.model.epoch = int(self.line.state("epoch"))
        for _, now in answers:
            self.model.ask(ask, now)
        running = ask.request_id in self.model.running
        last = Answer.of(answers[-1][0])  # type: ignore[arg-type]
        assert last.state is (State.GRANTED if running else State.WAITING)
        assert 0 <= last.place <= len(self.model.line)

    async def end(self) -> None:
        """Of one that runs, waits, has ended or is dead."""
        if self.known:
            name = self.random.choice(self.known[-20:]).request_id
            served = self.random.uniform(0, 1500)
            for _, now in await self.send(self.line.permits.release(name, served)):
                self.model.release(name, served, now)

    async def die(self) -> None:
        dead = [ask.request_id for ask in self.known if self.random.random() < 0.2]
        self.line.kill(*dead)
        self.model.dead.update(name for name in dead if name in self.line.running() | set(self.line.members("beats")))
        await self.end()

    def check(self) -> None:
        line, model = self.line, self.model
        assert line.running() == set(model.running)
        assert set(line.members("beats")) == {ask.request_id for ask in model.line}
        assert len(model.running) <= model.room.capacity
        assert line.state("kv") == sum(held.ask.kv_tokens for held in model.running.values())
        stored = {(CLASSES[int(key[0]) - 1], key[1:]): value for key, value in line.service().items()}
        assert stored == pytest.approx(model.service)

    async def finish(self) -> None:
        for ask in self.known:
            await self.line.release(ask.request_id)
        assert self.line.is_empty()
        assert [self.line.state(f"expected{number}") for number in (1, 2, 3)] == pytest.approx([0, 0, 0], abs=1e-6)


@pytest.mark.parametrize("seed", range(16))
async def test_every_turn_goes_where_the_rules_say(seed: int, make_line: MakeLine) -> None:
    schedule = Schedule(seed, make_line)
    for _ in range(STEPS):
        await schedule.step()
    await schedule.finish()
