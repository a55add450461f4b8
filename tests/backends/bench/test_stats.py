"""Definitions of the metrics, on samples made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.bench.client import Sample
from backends.bench.stats import (
    inter_token_gaps,
    meets,
    peak_concurrency,
    peak_token_rate,
    percentile,
    spread,
)


def sample(sent: float, *times: float, tokens: int | None = None) -> Sample:
    return Sample(sent=sent, text_times=list(times), output_tokens=len(times) if tokens is None else tokens)


def test_ttft_tpot_and_latency_of_one_request() -> None:
    one = sample(10.0, 10.5, 10.6, 10.9)
    assert one.ttft == pytest.approx(0.5)
    assert one.e2e == pytest.approx(0.9)
    assert one.tpot == pytest.approx(0.2)
    assert sample(0, 1).tpot == 0


def test_tpot_divides_by_tokens_and_itl_by_pieces() -> None:
    several_tokens_a_piece = sample(0.0, 1.0, 2.0, tokens=5)
    assert several_tokens_a_piece.tpot == pytest.approx(0.25)
    assert inter_token_gaps([several_tokens_a_piece]) == [1.0]


def test_gaps_are_pooled_over_requests() -> None:
    assert inter_token_gaps([sample(0, 1, 3), sample(0, 1), sample(0, 2, 2.5)]) == [2, 0.5]


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 2.5), (95, 3.85), (99, 3.97), (100, 4)])
def test_percentiles_are_linear_between_neighbours(percent: float, expected: float) -> None:
    assert percentile([1, 2, 3, 4], percent) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_a_spread_is_within_its_values(values: list[float]) -> None:
    made = spread(values)
    assert min(values) <= made.median <= made.p95 <= made.p99 <= max(values)
    assert min(values) - 1e-6 <= made.mean <= max(values) + 1e-6


def test_a_spread_of_nothing_is_zero() -> None:
    assert spread([]).p99 == 0


def test_goodput_needs_every_limit() -> None:
    one = sample(0.0, 0.5, 0.75)
    assert meets(one, {"ttft": 500, "tpot": 250, "e2el": 750})
    assert not meets(one, {"ttft": 500, "tpot": 249})
    assert meets(one, {})


def test_peak_concurrency_sweeps_the_intervals() -> None:
    assert peak_concurrency([sample(0, 2), sample(1, 3), sample(2, 4)]) == 2
    assert peak_concurrency([]) == 0


def test_peak_rate_is_of_the_fullest_second() -> None:
    assert peak_token_rate([sample(0, 0.1, 1.1, 1.2, 1.3), sample(0, 1.5, tokens=4)], 0.0) == 7
