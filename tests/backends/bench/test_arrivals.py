"""Arrivals keep the offered rate, whatever their burstiness."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from typing import Any

import pytest

from backends.bench import BenchConfig, BenchError, measure, validate
from backends.bench.arrivals import arrivals
from tests.backends.bench.server import Script, serving


def times(count: int, **settings: Any) -> list[float]:
    config = BenchConfig(**settings)
    assert validate(config) == []
    return arrivals(config, [None] * count)


def gaps(burstiness: float, **settings: Any) -> list[float]:
    return [b - a for a, b in pairwise([0.0, *times(2000, request_rate=10, burstiness=burstiness, seed=1, **settings)])]


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0, math.inf])
def test_the_total_is_count_over_rate(burstiness: float) -> None:
    assert sum(gaps(burstiness)) == pytest.approx(200)
    assert sum(gaps(burstiness, burst_size=8)) == pytest.approx(200)


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0])
def test_the_spread_of_gaps_follows_the_shape(burstiness: float) -> None:
    assert pstdev(gaps(burstiness)) / 0.1 == pytest.approx(1 / math.sqrt(burstiness), rel=0.15)


def test_no_rate_means_all_at_once_and_no_bursts_means_a_steady_beat() -> None:
    assert times(3) == [0, 0, 0]
    assert times(3, request_rate=2, burstiness=math.inf) == [0.5, 1.0, 1.5]


def test_the_same_seed_arrives_at_the_same_times() -> None:
    assert times(9, request_rate=1, seed=5) == times(9, request_rate=1, seed=5)
    assert times(9, request_rate=1, seed=5) != times(9, request_rate=1, seed=6)


def test_a_burst_arrives_together_at_the_same_rate() -> None:
    assert times(5, request_rate=2, burst_size=2, burstiness=math.inf) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(("strategy", "middle"), [("linear", 5), ("exponential", 3)])
def test_a_ramp_moves_the_rate_from_one_end_to_the_other(strategy: str, middle: float) -> None:
    ramp: dict[str, Any] = {"ramp_up_strategy": strategy, "ramp_up_start_rps": 1, "ramp_up_end_rps": 9}
    sent = times(3, burstiness=math.inf, **ramp)
    assert [1 / (later - earlier) for earlier, later in pairwise([0.0, *sent])] == pytest.approx([1, middle, 9])
    assert times(3, **ramp)[-1] == pytest.approx(sent[-1])


def test_a_ramp_of_one_request_has_its_first_rate() -> None:
    assert times(
        1, burstiness=math.inf, ramp_up_strategy="linear", ramp_up_start_rps=2, ramp_up_end_rps=9
    ) == pytest.approx([0.5])


def test_a_log_is_replayed_faster_or_slower() -> None:
    config = BenchConfig(replay_speed=2)
    assert arrivals(config, [0, 1, 4]) == [0, 0.5, 2]
    with pytest.raises(BenchError, match="a timestamp in every line"):
        arrivals(config, [0, None])


async def test_a_replay_sends_in_the_order_of_the_log(tmp_path: Path) -> None:
    lines = [{"prompt": name, "timestamp": at} for name, at in (("third", 8), ("first", 3), ("second", 5.5))]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        config = BenchConfig(url=url, dataset_name="custom", dataset_path=str(log), replay_speed=50, output_tokens=1)
        report = await measure(config)
    assert [body["messages"][0]["content"] for body in script.bodies[-3:]] == ["first", "second", "third"]
    assert report.samples[2].sent - report.samples[0].sent >= 0.09
    assert report.to_dict()["replay_speed"] == 50


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"burst_size": 0}, "burst_size is 0: expected at least 1"),
        ({"ramp_up_strategy": "steep"}, "ramp_up_strategy is 'steep': expected linear or exponential"),
        ({"ramp_up_strategy": "linear"}, "ramp_up_start_rps is None: expected a finite rate above 0"),
        ({"ramp_up_end_rps": 5.0}, "ramp_up_end_rps is 5.0: expected none but with ramp_up_strategy"),
        ({"replay_speed": 1.0}, "replay_speed is 1.0: expected a log"),
        ({"replay_speed": 0.0, "dataset_name": "custom", "dataset_path": "a"}, "replay_speed is 0.0: expected above 0"),
        (
            {"replay_speed": 1.0, "request_rate": 2.0, "dataset_name": "custom", "dataset_path": "a"},
            "one of request_rate",
        ),
        ({"replay_speed": 1.0, "burst_size": 2, "dataset_name": "custom", "dataset_path": "a"}, "1 with replay_speed"),
    ],
    ids=str,
)
def test_arrivals_that_contradict_each_other_are_refused(settings: dict[str, Any], says: str) -> None:
    assert says in validate(BenchConfig(**settings))[0]
