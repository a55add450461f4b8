"""Several servers in turn, and their ratios."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from backends.bench import BenchConfig, BenchError, Report, compare, measure
from backends.bench.arrivals import arrivals
from backends.bench.client import Sample
from backends.bench.datasets import conversations
from backends.bench.prompts import Scale
from backends.bench.report import make_report
from backends.bench.strain import Strain
from tests.backends.bench.server import Script, serving

A = BenchConfig(url="http://a", dataset_name="sharegpt-like", num_requests=5, request_rate=3, seed=7)
B = replace(A, url="http://b")


def report_of(config: BenchConfig, seconds: float, strain: Strain | None = None) -> Report:
    sample = Sample(sent=0.0, text_times=[seconds / 2, seconds], output_tokens=10)
    return make_report(config, "m", "now", [sample], strain)


def test_servers_take_turns_with_the_same_load_and_new_texts() -> None:
    seen: list[BenchConfig] = []

    def run(config: BenchConfig) -> Report:
        seen.append(config)
        return report_of(config, 1)

    compare([A, B], 2, run)
    assert [config.url for config in seen] == ["http://a", "http://b"] * 2
    asked = [conversations(config, Scale()) for config in seen]
    lengths = [[len(one.turns[0].messages[0]["content"].split()) for one in each] for each in asked]
    assert all(each == lengths[0] for each in lengths)
    assert len({arrivals(config, [None] * 5)[-2] for config in seen}) == 1
    assert len({str(each) for each in asked}) == 4


def test_ratios_are_of_a_round_and_told_with_their_range() -> None:
    answered = {"http://a": iter([1.0, 2.0]), "http://b": iter([2.0, 3.0])}
    made = compare([A, B], 2, lambda config: report_of(config, next(answered[config.url])))
    assert made.figure("output_throughput", 0) == pytest.approx(7.5)
    assert made.ratio("output_throughput", 1) == pytest.approx((1.75, 1.5, 2.0))
    assert made.ratio("failed", 1) is None
    assert "1.75 (1.50-2.00)" in made.to_text()
    written = json.loads(json.dumps(made.to_dict()))
    assert written["ratios"][0]["to"] == "http://b"
    assert written["ratios"][0]["output_throughput"]["least"] == pytest.approx(1.5)
    assert [(run["round"], run["target"]) for run in written["runs"]] == [
        (1, "http://a"),
        (1, "http://b"),
        (2, "http://a"),
        (2, "http://b"),
    ]


def test_the_first_is_compared_with_each_of_the_others() -> None:
    seconds = {"http://a": 1.0, "http://b": 2.0, "http://c": 4.0}
    made = compare([A, B, replace(A, url="http://c")], 1, lambda config: report_of(config, seconds[config.url]))
    assert [one["output_throughput"]["median"] for one in made.to_dict()["ratios"]] == pytest.approx([2, 4])


def test_a_server_that_goes_away_ends_it_and_what_was_measured_is_kept() -> None:
    left = {"http://a": 3, "http://b": 1}

    def run(config: BenchConfig) -> Report:
        left[config.url] -= 1
        if left[config.url] < 0:
            raise BenchError(f"no server answers at {config.url}")
        return report_of(config, 1)

    made = compare([A, B], 3, run)
    assert made.ended == "It ended in round 2 of 3, at http://b: no server answers at http://b"
    assert [len(reports) for reports in made.rounds] == [2, 1]
    assert list(made.named()) == ["A1 http://a", "B1 http://b", "A2 http://a"]
    assert made.ratio("output_throughput", 1) == pytest.approx((1, 1, 1))
    assert made.to_text().endswith(made.ended)
    written = json.loads(json.dumps(made.to_dict()))
    assert written["ended"] == made.ended
    assert [(run["round"], run["target"]) for run in written["runs"]] == [
        (1, "http://a"),
        (1, "http://b"),
        (2, "http://a"),
    ]


def test_one_that_never_came_is_a_dash_and_the_first_that_never_came_a_fault() -> None:
    def run(config: BenchConfig) -> Report:
        if config.url == gone:
            raise BenchError("no server answers")
        return report_of(config, 1)

    gone = B.url
    made = compare([A, B], 2, run)
    assert (made.figure("failed", 1), made.ratio("output_throughput", 1)) == (None, None)
    assert "output_throughput              10.00           -" in made.to_text()
    gone = A.url
    with pytest.raises(BenchError, match="no server answers"):
        compare([A, B], 2, run)


def test_a_generator_that_was_the_bottleneck_is_told() -> None:
    rested = compare([A, B], 1, lambda config: report_of(config, 1))
    assert "bottleneck" not in rested.to_text()
    strained = compare([A, B], 1, lambda config: report_of(config, 1, Strain(cpu_share=1.0 * (config.url == B.url))))
    assert "bottleneck in some runs" in strained.to_text()


async def test_the_words_alone_follow_the_seed_of_texts(tmp_path: Path) -> None:
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        for text_seed in (1, 2):
            await measure(BenchConfig(url=url, num_requests=1, text_seed=text_seed, num_warmups=0, output_tokens=1))
    assert script.bodies[2] != script.bodies[5]
