"""How many may run for the target speed: a line through noisy samples, and caution where there is none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from gateway.queueing.speed import Speed
from tests.gateway.queueing.conftest import MakeLine, wanted


def speed_of(samples: Iterable[tuple[float, float]]) -> Speed:
    """From pairs of how many ran and seconds a token."""
    n = x = y = xx = xy = yy = 0.0
    for running, pace in samples:
        n, x, y = n + 1, x + running, y + pace
        xx, xy, yy = xx + running * running, xy + running * pace, yy + pace * pace
    return Speed(n, x, y, xx, xy, yy)


def sampled(counts: Iterable[float], alone: float, each: float, noise: float = 0.0) -> Speed:
    rng = random.Random(7)
    return speed_of((count, alone + each * count + rng.gauss(0, noise)) for count in counts)


def test_the_most_that_keep_the_target_are_where_the_line_meets_it() -> None:
    # 10 ms, and 2 ms for each that runs: twenty of them make the 50 ms of 20 tokens a second.
    assert sampled([2, 5, 8, 12] * 10, 0.010, 0.002).capacity_for(20) == 20
    assert sampled([2, 5, 8, 12] * 10, 0.010, 0.002).capacity_for(40) == 7


def test_noise_moves_it_little() -> None:
    found = sampled([2, 5, 8, 12, 20, 30] * 40, 0.010, 0.002, noise=0.005).capacity_for(20)
    assert found == pytest.approx(20, abs=2)


def test_too_few_samples_say_nothing() -> None:
    assert Speed().capacity_for(20) is None
    assert sampled([1, 50] * 5, 0.1, 0.1).capacity_for(20) is None


def test_always_as_many_and_quick_enough_says_nothing() -> None:
    assert sampled([16] * 100, 0.010, 0.002, noise=0.0001).capacity_for(20) is None


def test_always_as_many_and_too_slow_steps_down_so_that_a_line_can_be_seen() -> None:
    assert sampled([64] * 100, 0.010, 0.002, noise=0.0001).capacity_for(20) == 57


def test_where_fewer_would_be_no_faster_nobody_is_held_back() -> None:
    assert sampled([2, 10, 30, 60] * 20, 0.060, 0.0, noise=0.002).capacity_for(20) is None


def test_a_machine_too_slow_for_the_target_serves_several_at_half_its_best() -> None:
    # Alone 100 ms a token; at 10 tokens a second half of that is 5: 200 ms.
    assert sampled([1, 2, 4, 6] * 10, 0.080, 0.020).capacity_for(20) == 6


def test_it_is_never_less_than_one() -> None:
    assert sampled([1, 2, 4] * 20, 0.001, 0.0489).capacity_for(20) == 1


async def test_answers_teach_how_many_ran_beside_them_on_average(make_line: MakeLine) -> None:
    line = make_line(capacity=4)
    for name in "abcd":
        await line.ask(wanted(name))
    await asyncio.sleep(0.05)
    await line.release("a", pace=0.05)
    line.permits.renewed(await line.store.run(line.permits.renew()))
    speed = line.permits.speeds["a"]
    assert (speed.n, speed.y) == (1, 0.05)
    assert 1 < speed.x <= 4
    await line.release("a", pace=0.05)  # sent twice
    await line.release("b", pace=0.0)  # no measure
    line.permits.renewed(await line.store.run(line.permits.renew()))
    assert line.permits.speeds == {"a": speed}
