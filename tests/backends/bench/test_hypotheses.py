"""The six hypotheses, judged on reports as runs would have made them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from backends.bench.bound import Ceiling, Rates
from backends.bench.config import BenchConfig, BenchError
from backends.bench.hypotheses import AFTER_FAILURE, Verdict, answers, beats, gives_each, starts_soon
from backends.bench.report import Report
from backends.bench.strain import Strain
from backends.bench.sweep import Point, Target, point_of
from backends.bench.verification import Proof, Tools, verify
from backends.bench.witness import Witness
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


def test_3_advises_what_was_measured_to_carry() -> None:
    """At 8 everybody had the target: 16 people need two such machines. Who alone is too slow needs another one."""
    advice = gives_each(points({1: 60, 8: 30, 16: 15, 32: 11}), 16, 20).what_to_do
    assert "--max-num-seqs 8," in advice
    assert "2 of these for 16" in advice
    assert "even alone" in gives_each(points({1: 19, 8: 30, 16: 15}), 16, 20).what_to_do


@pytest.mark.parametrize(("ttft", "state"), [(1.9, "holds"), (2.1, "fails")])
def test_4_holds_where_the_first_token_comes_in_time(ttft: float, state: str) -> None:
    assert starts_soon(report(50, ttft=ttft), 50, 2000).state == state


def test_4_fails_where_a_request_does() -> None:
    verdict = starts_soon(report(50, errors=(FULL,)), 50, 2000)
    assert verdict.state == "fails"
    assert "1 of 101 requests failed: 429" in verdict.said


class Server:
    """Answers runs by their titles; keeps what was asked."""

    def __init__(self, fails: Callable[[str], bool] = lambda title: False, strain: Strain | None = None) -> None:
        self.fails = fails
        self.strain = strain or Strain()
        self.asked: list[tuple[str, BenchConfig]] = []

    def run(self, title: str, config: BenchConfig) -> Report:
        self.asked.append((title, config))
        if self.fails(title):
            raise BenchError("no server answers")
        assert config.concurrency is not None
        each = 10.0 if config.url == "http://slow" else 50.0
        made = report(config.concurrency, each=each, ttft=0.01, rounds=config.num_requests // config.concurrency)
        return replace(made, strain=self.strain) if title == "20 people" else made


PROOF = Proof(BenchConfig(url="http://quick", seed=5), limit=32, people=20)
# A bound of what the weights take alone: 32 at once have 32 times the throughput of one, as this server does.
CEILING = Ceiling(SHAPES["smollm2-135m"], "Q4_1", Rates(8e9), "a test")


def verdicts(server: Server, proof: Proof = PROOF, ceiling: Ceiling | str = CEILING) -> list[Verdict]:
    return list(verify(proof, Tools(server.run, lambda model: ceiling, lambda: nullcontext(Witness()))))


def states(found: list[Verdict]) -> list[str]:
    assert [verdict.number for verdict in found] == [1, 2, 3, 4, 5, 6]
    return [verdict.state for verdict in found]


def test_all_six_are_told_in_their_order_and_only_the_baseline_may_be_missing() -> None:
    server = Server()
    assert states(verdicts(server)) == ["holds", "not run", "holds", "holds", "holds", "holds"]
    loads = [(config.concurrency, config.num_requests) for _, config in server.asked]
    sweep = [(at, 4 * at) for at in (1, 2, 4, 8, 16, 32)]
    assert loads == [(1, 1), *sweep, *sweep, *sweep, (20, 80), (64, 64), (1, 1)]


def test_no_two_runs_send_the_same_prompts() -> None:
    server = Server()
    verdicts(server)
    seeds = [config.seed for _, config in server.asked]
    assert seeds == list(range(5, 5 + len(seeds)))


def test_ours_and_the_baseline_take_turns_under_the_same_load() -> None:
    server = Server()
    found = verdicts(server, replace(PROOF, baseline=BenchConfig(url="http://slow"), repeats=2))
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
        ("1 at once, run 1", ["holds", "holds", "fails", "holds", "holds", "not run"]),
        ("16 at once, run 3", ["holds", "holds", "fails", "holds", "holds", "holds"]),
        ("20 people", ["holds", "holds", "holds", "fails", "holds", "holds"]),
        ("64 at once", ["holds", "holds", "holds", "holds", "fails", "holds"]),
        ("one more", ["holds", "holds", "holds", "holds", "fails", "holds"]),
    ],
)
def test_a_run_that_cannot_be_made_fails_its_own_hypothesis_alone(broken: str, expected: list[str]) -> None:
    proof = replace(PROOF, baseline=BenchConfig(url="http://slow"))
    assert states(verdicts(Server(lambda title: title == broken), proof)) == expected


def test_without_a_bound_the_sixth_is_not_run_and_says_why() -> None:
    found = verdicts(Server(), ceiling="give --shape")
    assert (found[5].state, found[5].said) == ("not run", "give --shape")


def test_a_run_that_the_load_generator_held_up_is_told_with_the_verdict_that_rests_on_it() -> None:
    found = verdicts(Server(strain=Strain(cpu_share=0.99)))
    assert [bool(verdict.doubts) for verdict in found] == [False, False, False, True, False, False]
    assert found[3].doubts[0].startswith("20 people: it computed 99%")


def test_more_at_once_than_the_limit_have_no_more_of_the_bound() -> None:
    found = verdicts(Server(), replace(PROOF, limit=4))
    bounds = {at: point["bound_tok_s"] for at, point in found[5].to_dict()["figures"]["points"].items()}
    assert bounds["4"] == bounds["8"] == bounds["32"] > bounds["2"]
