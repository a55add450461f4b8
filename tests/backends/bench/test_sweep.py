"""What a sweep measures next, where it ends, and what it advises."""

from __future__ import annotations

import pytest

from backends.bench.config import BenchConfig
from backends.bench.report import make_report
from backends.bench.sweep import Point, Sweep, Target, advice, doubling, point_of, search
from tests.backends.bench.reports import report


def searched(carries: int, limit: int) -> tuple[Sweep, list[int]]:
    """A server whose people get the target as long as they are no more than `carries`."""
    asked: list[int] = []

    def measure(concurrency: int) -> Point:
        asked.append(concurrency)
        return point_of(concurrency, [report(concurrency, each=20.1 if concurrency <= carries else 19.9)], Target(20.0))

    return search(measure, limit), asked


def test_it_doubles_until_the_target_is_missed_and_bisects_from_there() -> None:
    found, asked = searched(11, 256)
    assert asked == [1, 2, 4, 8, 16, 12, 10, 11]
    assert (found.best, found.max_num_seqs, found.bounded) == (11, 11, True)
    assert [point.concurrency for point in found.points] == sorted(asked)


@pytest.mark.parametrize("carries", range(33))
def test_it_finds_every_number_below_its_resolution_exactly(carries: int) -> None:
    assert searched(carries, 64)[0].best == carries


def test_a_bound_of_many_is_no_sharper_than_a_sixteenth() -> None:
    found, asked = searched(777, 4096)
    assert 777 * 15 / 16 <= found.best <= 777
    assert len(asked) <= 16


@pytest.mark.parametrize("limit", [1, 6, 8])
def test_the_limit_itself_is_measured_and_ends_the_search(limit: int) -> None:
    found, asked = searched(1000, limit)
    assert asked == list(doubling(limit))
    assert asked[-1] == found.best == limit
    assert not found.bounded
    assert "a higher --max-concurrency may find more" in advice(found, Target())


def test_where_one_alone_is_too_slow_nothing_is_recommended() -> None:
    found, asked = searched(0, 64)
    assert asked == [1]
    assert (found.best, found.max_num_seqs) == (0, None)
    assert "Nobody gets the target, even alone: below 20 tok/s each" in advice(found, Target())


def test_the_slow_ones_decide_and_not_the_mean() -> None:
    """Of ten one is slow: their mean TPOT is 32.5 ms, its 95th percentile 100."""
    samples = [*report(9, each=40).samples, *report(1, each=10).samples]
    point = point_of(10, [make_report(BenchConfig(), "m", "d", samples)], Target())
    assert point.per_person_tok_s == pytest.approx(10)
    assert point.missed == "below 20 tok/s each"


def test_the_median_of_the_runs_decides() -> None:
    runs = [report(2, each=speed, ttft=ttft) for speed, ttft in ((30, 1.0), (5, 9.0), (25, 0.5))]
    point = point_of(2, runs, Target(20, ttft_p95_ms=1000.5))
    assert point.runs == 3
    assert point.per_person_tok_s == pytest.approx(25)
    assert point.ttft_p95_ms == pytest.approx(1000)
    assert point.meets


def test_a_limit_on_the_first_token_and_a_failed_request_each_miss_the_target() -> None:
    late = point_of(1, [report(ttft=2.5)], Target(20, ttft_p95_ms=2000))
    assert late.missed == "TTFT p95 over 2000 ms"
    assert point_of(1, [report(ttft=2.5)], Target(20)).meets
    assert point_of(1, [report(), report(errors=("500: no",))], Target(20)).missed == "1 requests failed: 500: no"


def test_an_answer_that_comes_in_one_piece_shows_no_speed() -> None:
    at_once = point_of(1, [report(each=float("inf"))], Target())
    assert at_once.per_person_tok_s == 0
    assert "one piece" in at_once.missed


def test_a_server_that_lets_most_of_them_wait_is_told_of() -> None:
    busy, idle = (point_of(8, [report(8, ttft=ttft)], Target()) for ttft in (0.01, 2.0))
    assert busy.decoding == pytest.approx(8, rel=0.05)
    assert not busy.queued
    assert idle.decoding == pytest.approx(8 * 0.4 / 2.4)
    assert idle.queued
    assert "only 1 were answered at a time" in advice(Sweep((idle,), 8, False), Target())
    assert "at a time" not in advice(Sweep((busy,), 8, True), Target())
