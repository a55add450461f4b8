"""Speeds that are learned, and what a first token costs where."""

from __future__ import annotations

import random

import pytest

from gateway.routing.prefill import PrefillSpeed
from gateway.routing.score import Candidate, choices


def learned(per_token: float, each: float, *, seed: int = 1, noise: float = 0.1, answers: int = 300) -> PrefillSpeed:
    rng, speed = random.Random(seed), PrefillSpeed()
    for _ in range(answers):
        tokens, running = rng.choice([0, 50, 400, 3000]), rng.randrange(20)
        took = (per_token * tokens + each * (running + 1)) * rng.uniform(1 - noise, 1 + noise)
        speed.learn(tokens, running, took)
    return speed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("per_token", "each"), [(0.0001, 0.01), (0.002, 0.1), (0.0005, 0.2)])
def test_it_learns_what_a_token_and_a_neighbour_cost(seed: int, per_token: float, each: float) -> None:
    speed = learned(per_token, each, seed=seed)
    assert speed.per_token == pytest.approx(per_token, rel=0.25)
    assert speed.each == pytest.approx(each, rel=0.25)


def test_it_follows_an_engine_that_becomes_slower() -> None:
    speed = learned(0.0001, 0.01)
    for _ in range(200):
        speed.learn(1000, 0, 1.0)
    assert speed.seconds(1000) == pytest.approx(1.0, rel=0.1)


def test_a_few_answers_tell_that_an_engine_is_far_slower_than_was_thought() -> None:
    speed = PrefillSpeed()
    for _ in range(3):
        speed.learn(500, 0, 10.0)
    assert speed.seconds(500) == pytest.approx(10.0, rel=0.2)


def test_answers_that_are_all_alike_are_foretold_as_they_were() -> None:
    speed = PrefillSpeed()
    for _ in range(100):
        speed.learn(500, 0, 0.4)
    assert speed.seconds(500) == pytest.approx(0.4, rel=0.1)


def test_nothing_ever_costs_nothing() -> None:
    speed = PrefillSpeed()
    for index in range(500):  # longer prompts and fuller engines that are quicker
        speed.learn(index % 7 * 1000, index % 5, 1.0 / (1 + index % 7 + index % 5))
        assert speed.per_token > 0
        assert speed.each > 0


def test_a_step_of_the_engine_is_the_least_that_one_more_costs() -> None:
    speed = PrefillSpeed(least_each=0.05)
    for _ in range(300):
        speed.learn(100, 3, 0.001)
    assert speed.each == 0.05


def candidate(name: str, **changes: float) -> Candidate:
    return Candidate(name, learned(0.001, 0.01), **changes)  # type: ignore[arg-type]


def names(tokens: int, *candidates: Candidate) -> list[str]:
    return [choice.backend for choice in choices(tokens, candidates)]


def test_the_cheapest_comes_first() -> None:
    assert names(1000, candidate("a"), candidate("b", warm=0.9)) == ["b", "a"]
    assert names(1000, candidate("a"), candidate("b", weight=3.0)) == ["b", "a"]
    assert names(1000, candidate("a", slowness=2.0), candidate("b")) == ["b", "a"]
    assert names(1000, candidate("a", others=64), candidate("b")) == ["b", "a"]


def test_a_warm_prefix_loses_where_waiting_costs_more_than_computing() -> None:
    warm, cold = candidate("warm", warm=0.9), candidate("cold")
    saved = dict(choices(1000, [cold]))["cold"] - dict(choices(1000, [warm]))["warm"]
    assert saved == pytest.approx(0.9, rel=0.2)
    running = int(saved / warm.each_seconds) + 20
    assert choices(1000, [warm])[0].seconds + running * warm.each_seconds > choices(1000, [cold])[0].seconds


def test_costs_are_in_seconds_to_a_tenth() -> None:
    (choice,) = choices(1000, [candidate("a")])
    assert choice.seconds == pytest.approx(1.01, rel=0.3)


def test_backends_that_are_nearly_equal_cost_the_same() -> None:
    same = {
        candidate.seconds(1000)
        for candidate in (Candidate("a", PrefillSpeed(per_token=0.001 + 0.00001 * index)) for index in range(3))
    }
    assert len(same) == 1


def test_one_of_twice_the_weight_takes_twice_as_many_before_it_costs_the_same() -> None:
    one, two = candidate("one"), candidate("two", weight=2.0)
    assert one.each_seconds / two.each_seconds == pytest.approx(2, rel=0.11)
