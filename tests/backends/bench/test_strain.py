"""A run in which the load generator was the bottleneck says so."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from backends.bench import BenchConfig, Progress, measure
from backends.bench.report import make_report
from backends.bench.stats import Spread
from backends.bench.strain import Strain, StrainGauge, with_missed_ticks
from tests.backends.bench.server import Script, serving


def test_a_generator_at_rest_is_no_bottleneck() -> None:
    assert Strain(0.89, Spread(p95=19), Spread(p95=49)).bottlenecks == []


@pytest.mark.parametrize(
    ("strain", "says"),
    [
        (Strain(cpu_share=0.95), "it computed 95% of the time"),
        (Strain(loop_lag=Spread(p95=25)), "other programs had the processor, and it read answers 25 ms late"),
        (Strain(cpu_share=0.8, loop_lag=Spread(p95=25)), "it read answers 25 ms late"),
        (Strain(late_sends=Spread(p95=80)), "it sent 80 ms late"),
    ],
)
def test_each_sign_of_strain_is_named_with_its_limit(strain: Strain, says: str) -> None:
    (reason,) = strain.bottlenecks
    assert reason.startswith(says)
    assert "is sound" in reason


def test_a_report_tells_of_strain_and_of_none() -> None:
    strained = make_report(BenchConfig(), "m", "now", [], Strain(cpu_share=0.95))
    assert "generator was a bottleneck" in strained.to_text()
    assert "it computed 95%" in strained.to_text()
    assert strained.to_dict()["client_cpu_share"] == 0.95
    assert strained.to_dict()["client_bottlenecks"]
    rested = make_report(BenchConfig(), "m", "now", [], Strain(cpu_share=0.1))
    assert "bottleneck" not in rested.to_text()
    assert rested.to_dict()["client_bottlenecks"] == []


def test_a_long_stop_counts_for_all_the_ticks_that_it_ate() -> None:
    assert list(with_missed_ticks(0.0)) == [0.0]
    assert list(with_missed_ticks(0.05)) == pytest.approx([0.05, 0.03, 0.01])


async def test_a_run_whose_client_stops_reading_says_that_it_was_late(tmp_path: Path) -> None:
    def dawdle(_: Progress) -> None:
        time.sleep(0.1)

    async with serving(tmp_path / "s", Script()) as url:
        config = BenchConfig(url=url, num_requests=6, output_tokens=2, request_rate=100)
        report = await measure(config, dawdle)
    assert report.strain.late_sends.p95 >= 50
    assert report.strain.loop_lag.p95 >= 20
    assert any("read answers" in reason for reason in report.to_dict()["client_bottlenecks"])
    assert any("it sent" in reason for reason in report.to_dict()["client_bottlenecks"])


async def test_computing_is_counted_and_waiting_is_not() -> None:
    async with StrainGauge() as busy:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
    async with StrainGauge() as waiting:
        await asyncio.sleep(0.2)
    assert 0 < waiting.read().cpu_share < busy.read().cpu_share
