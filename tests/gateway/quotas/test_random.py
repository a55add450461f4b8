"""Random interleavings of many gateways, crashes, repeats, clock jumps and reapers, against the simple model."""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis

from backends.errors import Unreachable
from gateway.quotas.buckets import Usage
from gateway.quotas.plan import Plan, Size
from gateway.quotas.reaper import Reaper
from gateway.settings import Price
from gateway.store import keys
from tests.gateway.quotas.conftest import LEASE, Clock, Quotas, Start, leftovers, person, policy
from tests.gateway.quotas.model import Model, Part

SEEDS = 3
LEASE_MS = round(LEASE * 1000)
PEOPLE = [person(name, groups=("lab",) if name in "abc" else (), key_id=f"k{name}") for name in "abcde"]
POLICIES = [
    policy("all", requests_per_minute=30, tokens_per_minute=6000, requests_per_day=150, weights={"output": 2}),
    policy("lab", applies_to=["group:lab"], each=False, tokens_per_minute=9000, output_tokens_per_day=25_000),
    policy("flight", applies_to=["key:ka", "key:kd", "everyone"], concurrent_requests=4, weights={"cached_input": 0}),
    policy("cost", cost_per_month="0.2", input_tokens_per_month=60_000, weights={"cached_input": 0.1}),
    policy("shade", shadow=True, requests_per_minute=5, tokens_per_day=4000, concurrent_requests=1),
    policy("small", models=["small"], input_tokens_per_minute=900, output_tokens_per_minute=700),
]
PRICES = {"m": Price(input=2, cached_input=0.25, output=8), "small": Price(input=0.3, output=1)}  # type: ignore[arg-type]


class World:
    """Some gateways, what runs in them, and the model beside."""

    def __init__(self, start: Start, gateways: list[Quotas], clock: Clock, seed: int) -> None:
        self.start, self.gateways, self.clock = start, gateways, clock
        self.random = random.Random(seed)
        self.model = Model(LEASE_MS)
        self.plans: dict[str, Plan] = {}
        self.homes: dict[str, Quotas] = {}  # of the requests whose gateway lives
        self.truth: dict[str, Usage] = {}  # what the engine will have counted in the end
        self.spent: list[Any] = []  # settlements that were sent, to be sent again
        self.granted = self.refused = 0

    async def reserve(self) -> None:
        dice, name = self.random, f"r{len(self.plans)}"
        home = dice.choice(self.gateways)
        size = Size(dice.randint(1, 700), dice.choice([0, 0, 50, 400, 3000]), 4096)
        plan = await home.plan(dice.choice(PEOPLE), size, name, dice.choice(["m", "m", "small"]))
        self.plans[name], self.homes[name] = plan, home
        calls = [home.service.reserve(plan)] * dice.choice([1, 1, 1, 2])
        answers = await home.store.run_all(*calls)
        for answer in answers:
            expected = self.model.reserve(name, plan.buckets, Usage(1, plan.prompt, 0, answer[2]), self.clock.ms)
            assert answer[0] == expected, (name, answer)
        self.granted += expected
        self.refused += not expected
        prompt = max(1, plan.prompt + dice.randint(-5, 5))
        used = Usage(1, prompt, dice.choice([0, prompt // 2]), min(plan.room, dice.randint(0, 2 * answers[-1][2])))
        self.truth[name] = dice.choice([used, used, used, Usage()]) if expected else Usage()

    async def progress(self) -> None:
        """One gateway renews all that is its own."""
        home = self.random.choice(self.gateways)
        mine = [name for name in home.service.held if self.homes.get(name) is home]
        streamed = {name: self._so_far(name) for name in mine if self.truth[name].requests}
        calls = home.service.progress(streamed)
        await home.store.run_all(*calls, *calls)
        for name, used in streamed.items():
            self.model.progress(name, used, self.clock.ms)

    def _so_far(self, name: str) -> Usage:
        truth = self.truth[name]
        return truth._replace(input=self.plans[name].prompt, cached=0, output=self.random.randint(0, truth.output))

    async def settle(self) -> None:
        if not self.homes:
            return
        name = self.random.choice(list(self.homes))
        home = self.homes.pop(name)
        calls = home.service.settle(name, self.truth[name])
        self.spent.append((name, home, calls))
        await self._send(name, home, calls)

    async def settle_again(self) -> None:
        if self.spent:
            await self._send(*self.random.choice(self.spent))

    async def _send(self, name: str, home: Quotas, calls: list[Any]) -> None:
        known = name in self.model.requests
        (answer,) = await home.store.run_all(*calls)
        settled = self.model.settle(name, self.truth[name], self.clock.ms)
        if known:  # else it was refused: its settlement changes nothing, but leaves its mark
            assert answer == settled, name

    async def crash(self) -> None:
        place = self.random.randrange(len(self.gateways))
        dead, self.gateways[place] = self.gateways[place], await self.start(prices=PRICES)
        self.homes = {name: home for name, home in self.homes.items() if home is not dead}

    async def reap(self) -> None:
        """The engine knows the count of some; for others what was last told must do; of some it cannot say yet."""
        knows: dict[str, int] = {}

        async def account(name: str) -> Usage | None:
            knows[name] = self.random.randrange(3)
            if knows[name] == 2:
                raise Unreachable("not yet")
            return self.truth[name] if knows[name] else None

        expired = self.model.expired(self.clock.ms, LEASE_MS // 3)
        home = self.random.choice(self.gateways)
        await Reaper(home.store, LEASE, account).sweep()
        assert set(knows) <= set(expired)
        for name, answer in knows.items():
            if answer < 2:
                used = self.truth[name] if answer else self.model.requests[name].told
                assert self.model.settle(name, used, self.clock.ms)

    async def wait(self) -> None:
        self.clock.move(self.random.choice([0.001, 0.2, 1, 3, 10, 31, 3600, 30_000, -2, -50]))

    async def step(self) -> None:
        actions = [self.reserve, self.progress, self.settle, self.settle_again, self.crash, self.reap, self.wait]
        (action,) = self.random.choices(actions, [40, 10, 30, 5, 1, 4, 25])
        await action()

    def agree(self, client: redis.Redis) -> None:
        """Every bucket holds what the model says, to the token."""
        for part in {part.key: part for one in self.model.requests.values() for part in one.parts}.values():
            self._agree(client, part)

    def _agree(self, client: redis.Redis, part: Part) -> None:
        model, key = self.model, part.key
        if part.kind == "c":
            assert int(client.get(key) or 0) == model.counted(key), key
        elif part.kind == "z":
            alive = client.zcount(key, f"({self.clock.ms}", "+inf")
            assert alive == model.in_flight(key, self.clock.ms), key
        else:
            level, held = client.hmget(key, "level", "held")
            assert float(level or 0) == pytest.approx(model.flows[key].level, abs=1e-5), key
            assert int(held or 0) == model.held(key), key


async def drained(world: World) -> None:
    """All that still runs is settled, or its gateway dies and a reaper comes by, until nothing is left."""
    while world.homes:
        await world.settle()
    while world.model.expired(world.clock.ms + 10**9, 0):
        world.clock.move(2 * LEASE)
        await world.reap()


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_schedules_agree_with_the_model_to_the_token(
    quotas: Start, clock: Clock, client: redis.Redis, seed: int
) -> None:
    gateways = [await quotas(*POLICIES, prices=PRICES), *[await quotas(prices=PRICES) for _ in range(2)]]
    world = World(quotas, gateways, clock, seed)
    for number in range(1000):
        await world.step()
        if number % 50 == 0:
            world.agree(client)
    await drained(world)
    world.agree(client)
    assert leftovers(client) == []
    assert world.granted > 100
    assert world.refused > 20
    # Once more without the model's own bookkeeping: counters hold what was used, by all who were settled.
    for key in {key for plan in world.plans.values() for bucket in plan.buckets for key in bucket.keys}:
        parts = [(name, part) for name, _, part in world.model.parts(key) if part.kind == "c"]
        if parts:
            used = sum(part.amount(world.model.settled[name]) for name, part in parts)
            assert int(client.get(key) or 0) == used, key
    assert client.zcard(keys.RESERVATIONS) == 0
