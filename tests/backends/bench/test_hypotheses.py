"""The six hypotheses, judged on reports as runs would have made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from backends.bench.bound import computed_tok_s, copy_bandwidth
from backends.bench.config import BenchConfig, BenchError
from backends.bench.hypotheses import (
    AFTER_FAILURE,
    Verdict,
    answers,
    beats,
    gives_each,
    keeps_its_share,
    starts_soon,
    survives,
)
from backends.bench.report import Report
from backends.bench.sweep import Point, Target, point_of
from backends.bench.verification import Proof, verify
from backends.capacity import SHAPES
from tests.backends.bench.reports import report

CONNECTION = "ServerDisconnectedError: Server disconnected"
FULL = "429: The queue is full. Try again in 3 s."


def points(speeds: dict[int, float], errors: tuple[str, ...] = ()) -> list[Point]:
    return [point_of(at, [report(at, each=each, ttft=0.001, errors=errors)], Target()) for at, each in speeds.items()]


def test_1_holds_where_the_request_was_answered() -> None:
    assert answers(report()).state == "holds"
    refused = answers(report(rounds=0, errors=("401: no key",)))
    assert (refused.state, refused.said) == ("fails", "401: no key")
    assert refused.what_to_do == AFTER_FAILURE[1]


@pytest.mark.parametrize(("each", "state"), [(60, "holds"), (59, "fails")])
def test_2_compares_the_medians_of_the_turns(each: float, state: str) -> None:
    ours = [report(16, each=speed, ttft=0) for speed in (each, each, 1)]
    baseline = [report(16, each=speed, ttft=0) for speed in (20, 20, 500)]
    verdict = beats(ours, baseline)
    assert verdict.state == state
    assert verdict.figures["ratio"] == pytest.approx(each / 20)


def test_2_says_nothing_of_a_baseline_that_fails_and_fails_where_ours_does() -> None:
    good, bad = report(16), report(16, errors=(CONNECTION,))
    assert beats([good], [bad]).state == "not run"
    assert "Server disconnected" in beats([good], [bad]).said
    assert beats([bad], [good]).state == "fails"


def test_3_is_judged_at_its_number_and_tells_the_others() -> None:
    measured = points({1: 60, 8: 30, 16: 20, 32: 11})
    assert gives_each(measured, 16, 20).state == "holds"
    assert gives_each(measured, 32, 20).state == "fails"
    assert "1: 60, 8: 30, 16: 20, 32: 11" in gives_each(measured, 16, 20).said
    assert gives_each(measured, 4, 20).state == "not run"
    assert gives_each(points({16: 50}, (CONNECTION,)), 16, 20).state == "fails"
    assert "at 16: answers came in one piece" in gives_each(points({16: float("inf")}), 16, 20).said


@pytest.mark.parametrize(("ttft", "state"), [(1.9, "holds"), (2.1, "fails")])
def test_4_holds_where_the_first_token_comes_in_time(ttft: float, state: str) -> None:
    assert starts_soon(report(50, ttft=ttft), 50, 2000).state == state


def test_4_fails_where_a_request_does() -> None:
    verdict = starts_soon(report(50, errors=(FULL,)), 50, 2000)
    assert verdict.state == "fails"
    assert "1 of 101 requests failed: 429" in verdict.said


def test_5_holds_where_all_are_answered_or_refused_and_the_engine_lives() -> None:
    assert survives(report(64), report(), 32).state == "holds"
    refused = survives(report(30, rounds=1, errors=(FULL, "503 in the stream: draining")), report(), 16)
    assert refused.state == "holds"
    assert "30 were answered, 2 refused, 0 lost" in refused.said


@pytest.mark.parametrize("error", [CONNECTION, "500: out of memory", "400: bad", "TimeoutError", "4290: no such"])
def test_5_fails_where_one_is_lost(error: str) -> None:
    verdict = survives(report(31, rounds=1, errors=(error,)), report(), 16)
    assert verdict.state == "fails"
    assert f"1 lost, and it answers afterwards: {error}" in verdict.said


def test_5_fails_where_the_engine_is_gone_or_answered_nobody() -> None:
    assert survives(report(32), None, 16).state == "fails"
    assert survives(report(32), report(errors=(CONNECTION,)), 16).state == "fails"
    assert survives(report(rounds=0, errors=(FULL,) * 32), report(), 16).state == "fails"


def test_6_holds_where_the_shares_are_near_each_other_and_below_the_bound() -> None:
    measured = points({1: 60, 16: 40})
    total = {point.concurrency: point.output_tok_s for point in measured}
    shares: list[tuple[tuple[float, float], str]] = [
        ((0.5, 0.9), "holds"),
        ((0.3, 0.9), "fails"),
        ((0.9, 1.1), "fails"),
    ]
    for (one, many), state in shares:
        verdict = keeps_its_share(measured, {1: total[1] / one, 16: total[16] / many}.__getitem__)
        assert verdict.state == state, verdict.said
        assert f"1: {one:.0%}, 16: {many:.0%}" in verdict.said


def test_6_leaves_out_points_at_which_requests_waited_or_failed() -> None:
    waited = point_of(8, [report(8, ttft=9)], Target())
    assert keeps_its_share([*points({1: 60, 2: 60}), waited], lambda batch: 100.0 * batch).state == "holds"
    assert keeps_its_share([*points({1: 60}), waited], lambda batch: 100.0 * batch).state == "not run"
    assert keeps_its_share(points({1: 60, 2: 60}, (CONNECTION,)), lambda batch: 100.0).state == "not run"


def test_the_bound_is_bandwidth_by_what_a_step_reads() -> None:
    shape = SHAPES["qwen3-8b"]
    alone = computed_tok_s(1, shape, "BF16", 0, 1e12)
    assert alone == pytest.approx(1e12 / 15.137e9, rel=1e-3)
    many = computed_tok_s(16, shape, "BF16", 1000, 1e12)
    assert many == pytest.approx(16 / (1 / alone + 16 * 147456 * 1000 / 1e12))


def test_the_bound_of_a_mixture_counts_the_experts_that_a_batch_touches() -> None:
    """With next to no KV cache a dense model serves 16 in the time of one; of experts 16 touch more than one does."""
    dense, mixture = (
        computed_tok_s(16, SHAPES[name], "BF16", 0, 1e12) / computed_tok_s(1, SHAPES[name], "BF16", 0, 1e12)
        for name in ("qwen3-8b", "qwen3-30b-a3b")
    )
    assert dense == pytest.approx(16)
    assert mixture < 4


def test_a_copy_tells_a_bandwidth_that_memory_can_have() -> None:
    assert 1e8 < copy_bandwidth(8 << 20, 2) < 1e13


class Server:
    """Answers runs by their titles; keeps what was asked."""

    def __init__(self, fails: Callable[[str], bool] = lambda title: False) -> None:
        self.fails = fails
        self.asked: list[tuple[str, BenchConfig]] = []

    def run(self, title: str, config: BenchConfig) -> Report:
        self.asked.append((title, config))
        if self.fails(title):
            raise BenchError("no server answers")
        assert config.concurrency is not None
        each = 10.0 if config.url == "http://slow" else 50.0
        return report(config.concurrency, each=each, ttft=0.01, rounds=config.num_requests // config.concurrency)


PROOF = Proof(BenchConfig(url="http://quick", seed=5), limit=24, people=20)


def verdicts(server: Server, proof: Proof = PROOF, bound: float | None = 60.0) -> list[Verdict]:
    return list(verify(proof, server.run, lambda model: (lambda batch: batch * bound) if bound else None))


def states(found: list[Verdict]) -> list[str]:
    assert [verdict.number for verdict in found] == [1, 2, 3, 4, 5, 6]
    return [verdict.state for verdict in found]


def test_all_six_are_told_in_their_order_and_only_the_baseline_may_be_missing() -> None:
    server = Server()
    assert states(verdicts(server)) == ["holds", "not run", "holds", "holds", "holds", "holds"]
    loads = [(config.concurrency, config.num_requests) for _, config in server.asked]
    assert loads == [(1, 1), *((at, 4 * at) for at in (1, 2, 4, 8, 16, 32)), (20, 80), (48, 48), (1, 1)]


def test_no_two_runs_send_the_same_prompts() -> None:
    server = Server()
    verdicts(server)
    seeds = [config.seed for _, config in server.asked]
    assert seeds == list(range(5, 5 + len(seeds)))


def test_ours_and_the_baseline_take_turns_under_the_same_load() -> None:
    server = Server()
    found = verdicts(server, replace(PROOF, baseline=BenchConfig(url="http://slow")))
    assert states(found)[1] == "holds"
    turns = server.asked[1:5]
    assert [config.url for _, config in turns] == ["http://quick", "http://slow"] * 2
    assert {(config.concurrency, config.num_requests) for _, config in turns} == {(16, 64)}


def test_where_the_engine_does_not_answer_nothing_else_is_run() -> None:
    server = Server(lambda title: True)
    assert states(verdicts(server)) == ["fails", *["not run"] * 5]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("baseline, turn 1", ["holds", "not run", "holds", "holds", "holds", "holds"]),
        ("ours, turn 2", ["holds", "fails", "holds", "holds", "holds", "holds"]),
        ("16 at once", ["holds", "holds", "fails", "holds", "holds", "holds"]),
        ("20 people", ["holds", "holds", "holds", "fails", "holds", "holds"]),
        ("48 at once", ["holds", "holds", "holds", "holds", "fails", "holds"]),
        ("one more", ["holds", "holds", "holds", "holds", "fails", "holds"]),
    ],
)
def test_a_run_that_cannot_be_made_fails_its_own_hypothesis_alone(broken: str, expected: list[str]) -> None:
    proof = replace(PROOF, baseline=BenchConfig(url="http://slow"))
    assert states(verdicts(Server(lambda title: title == broken), proof)) == expected


def test_a_model_whose_shape_is_not_known_leaves_out_the_sixth() -> None:
    found = verdicts(Server(), bound=None)
    assert found[5].state == "not run"
    assert "--shape" in found[5].said
