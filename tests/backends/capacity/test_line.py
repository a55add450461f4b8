"""A step's line: the same from bytes and from samples, and what is asked of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest

from backends.capacity import Cost, Moments, largest_batch, step_seconds, wait_seconds

BYTES = {"active_weight_bytes": 3e9, "kv_bytes_per_request": 4e8, "bandwidth_bytes_per_s": 273e9}


def moments(samples: Iterable[tuple[float, float]]) -> Moments:
    pairs = list(samples)
    sums = (math.fsum(x**a * y**b for x, y in pairs) for a, b in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)))
    return Moments(*sums)


def test_a_line_fitted_to_computed_steps_is_the_computed_one() -> None:
    line = moments((batch, step_seconds(batch, **BYTES)) for batch in (1, 4, 9, 32)).fitted(3)
    assert line is not None
    assert tuple(line) == pytest.approx((3e9 / 273e9, 4e8 / 273e9))
    for target in (10, 20, 29.5):
        assert line.largest_batch(1 / target) == largest_batch(target, **BYTES)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_batch_is_the_last_within_the_budget(seed: int) -> None:
    rng = random.Random(seed)
    line = Cost(rng.uniform(0, 1), rng.uniform(1e-3, 1))
    budget = rng.uniform(0, 20)
    batch = line.largest_batch(budget)
    assert line.of(batch + 1) > budget
    assert batch == 0 or line.of(batch) <= budget * (1 + 1e-6)


def test_a_batch_that_meets_the_budget_exactly_is_within_it() -> None:
    assert Cost(0.010, 0.002).largest_batch(0.05) == 20
    assert Cost(0.1, 0.1).largest_batch(0.3) == 2, "although 0.3 - 0.1 is a little less than 0.2 to a computer"


def test_a_slope_that_noise_explains_is_none() -> None:
    rng = random.Random(7)
    samples = [(batch, 0.05 + rng.gauss(0, 0.02)) for batch in (2, 8, 16, 30) * 10]
    assert moments(samples).fitted(3) is None
    assert moments([(batch, 1 - 0.01 * batch) for batch in (1, 2, 3)]).fitted(3) is None, "fewer would be slower"


def test_a_turn_comes_free_as_often_as_there_are_turns_in_the_time_of_one() -> None:
    assert wait_seconds(1, 8.0, 4) == 2.0
    assert wait_seconds(6, 8.0, 4) == 12.0
