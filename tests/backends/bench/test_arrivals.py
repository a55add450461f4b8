"""Arrivals keep the offered rate, whatever their burstiness."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from statistics import pstdev

import pytest

from backends.bench.arrivals import send_times


def gaps(burstiness: float) -> list[float]:
    return [b - a for a, b in pairwise([0.0, *send_times(2000, 10, burstiness, random.Random(1))])]


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0, math.inf])
def test_the_total_is_count_over_rate(burstiness: float) -> None:
    assert sum(gaps(burstiness)) == pytest.approx(200)


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0])
def test_the_spread_of_gaps_follows_the_shape(burstiness: float) -> None:
    assert pstdev(gaps(burstiness)) / 0.1 == pytest.approx(1 / math.sqrt(burstiness), rel=0.15)


def test_no_rate_means_all_at_once_and_no_bursts_means_a_steady_beat() -> None:
    assert send_times(3, math.inf, 1, random.Random(1)) == [0, 0, 0]
    assert send_times(3, 2, math.inf, random.Random(1)) == [0.5, 1.0, 1.5]


def test_the_same_seed_arrives_at_the_same_times() -> None:
    assert send_times(9, 1, 1, random.Random(5)) == send_times(9, 1, 1, random.Random(5))
