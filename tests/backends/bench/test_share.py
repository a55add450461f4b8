"""Whether measured throughput is a stable share of a bound, judged on reports as runs would have made them."""

from __future__ import annotations

import pytest

from backends.bench.bound import Bound
from backends.bench.hypotheses import Verdict
from backends.bench.share import Share, keeps_its_share, shares_of
from tests.backends.bench.reports import report


def judged(**runs: tuple[float, ...]) -> Verdict:
    """By the number at once: `_8=(0.5, 0.6)`."""
    shares = [Share(int(name[1:]), ratios, Bound(100, "the memory")) for name, ratios in runs.items()]
    return keeps_its_share(shares, "a model, 9 GB/s")


def test_a_share_is_measured_by_computed_for_each_run_at_a_number() -> None:
    measured = [report(4, each=speed, ttft=0) for speed in (20, 40, 30)]
    [share] = shares_of({4: measured}, lambda at, work: Bound(at * work.output * 10, "the memory"))
    assert share.runs == pytest.approx([run.output_throughput / 840 for run in measured])
    assert share.middle == share.runs[2]
    assert share.bound == Bound(840, "the memory")


def test_points_at_which_a_request_failed_are_left_out() -> None:
    runs = {1: [report(1)], 2: [report(2), report(2, errors=("500: no",))], 4: [report(4)]}
    assert [share.at for share in shares_of(runs, lambda at, work: Bound(1, "the memory"))] == [1, 4]


def test_it_holds_where_every_run_is_within_the_tolerance_of_every_other() -> None:
    verdict = judged(_1=(0.45, 0.5), _8=(0.6, 0.9))
    assert (verdict.state, verdict.what_to_do) == ("holds", "")
    assert "1: 48% (45%-50%), 8: 75% (60%-90%)" in verdict.said
    assert "Computed for a model, 9 GB/s: bound by the memory at 1, 8" in verdict.said
    assert verdict.figures["widest"] == pytest.approx(2)


def test_it_fails_where_even_the_nearest_runs_are_apart_and_says_what_to_plan_with() -> None:
    verdict = judged(_1=(0.8,), _4=(0.7,), _16=(0.3, 0.34))
    assert verdict.state == "fails"
    assert "Apart by 2.35 x at the least, wanted 2 x" in verdict.said
    assert "sekisho plan --measured 16:32" in verdict.what_to_do


def test_where_the_noise_of_one_point_decides_nothing_is_shown() -> None:
    verdict = judged(_1=(0.8, 0.5), _16=(0.3, 0.45))
    assert verdict.state == "not run"
    assert "Apart by 1.11 to 2.67 x" in verdict.said
    assert "differ too much to tell" in verdict.said


def test_a_point_that_is_always_over_the_bound_disproves_it() -> None:
    verdict = judged(_1=(0.9,), _16=(1.01, 1.1))
    assert verdict.state == "fails"
    assert "Over 100 % the bound itself is wrong: the memory at 16" in verdict.said
    assert "--bandwidth and --operations" in verdict.what_to_do
    assert judged(_1=(0.9,), _16=(0.99, 1.1)).state == "not run"


def test_one_point_is_compared_with_nothing() -> None:
    assert judged(_1=(0.5, 0.5)).state == "not run"
