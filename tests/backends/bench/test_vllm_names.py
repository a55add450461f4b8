"""Figures have vLLM's names and formulas, so that results compare; the README says where they differ."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.bench import BenchConfig
from backends.bench.client import Sample
from backends.bench.report import make_report

README = (Path(__file__).parents[3] / "backends" / "README.md").read_text("utf-8")
STATISTICS = ("mean", "median", "std", "p95", "p99")

# What `vllm bench serve --save-result --save-detailed` writes of answered text requests (vllm/benchmarks/serve.py), but
# for what is of its own making: label, tokenizer, texts, its probes, speculation and audio.
VLLMS = {
    "date", "backend", "model_id", "num_prompts", "request_rate", "burstiness", "max_concurrency", "ramp_up_strategy",
    "ramp_up_start_rps", "ramp_up_end_rps", "duration", "completed", "failed", "total_input_tokens",
    "total_output_tokens", "request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
    "input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "errors",
    "max_output_tokens_per_s", "max_concurrent_requests",
    *(
        f"{statistic}_{name}_ms"
        for name in ("ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue")
        for statistic in STATISTICS
    ),
}  # fmt: skip


def samples() -> list[Sample]:
    """Some that queued, some of a single token, some that failed."""
    rng = random.Random(5)
    made = []
    for index in range(60):
        sent = rng.uniform(0, 5)
        tokens = 1 if index % 10 == 0 else rng.randint(2, 40)
        times = [sent + rng.uniform(0.05, 1.5)]
        for _ in range(tokens - 1):
            times.append(times[-1] + rng.uniform(0.005, 0.08))
        error = "503: no room" if index % 15 == 7 else ""
        made.append(Sample(sent, times, rng.randint(5, 90), tokens, 0, True, error, queued=rng.uniform(0, 0.4)))
    return made


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    config = BenchConfig(concurrency=4, request_rate=9.0, goodput={"ttft": 900.0, "tpot": 45.0, "e2el": 1800.0})
    return make_report(config, "m", "d", samples()).to_dict(detailed=True)


def test_every_name_of_vllms_is_there(told: dict[str, Any]) -> None:
    assert set(told) >= VLLMS


def test_the_readme_tells_of_every_figure_and_of_no_other(told: dict[str, Any]) -> None:
    table = README[README.index("| name | computed as |") :].split("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    names = {name for cell in cells for name in re.findall(r"`([*\w]+)`", cell)}
    spelled = {name.replace("*", statistic) for name in names for statistic in STATISTICS}
    assert spelled <= set(told)
    untold = {"date", "backend", "model_id", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"}
    assert VLLMS - spelled == untold


def test_figures_are_what_vllms_formulas_make_of_the_same_requests(told: dict[str, Any]) -> None:
    done = [index for index, error in enumerate(told["errors"]) if not error]
    ttfts, latencies, queues = (
        np.array([told[name][i] for i in done]) for name in ("ttfts", "latencies", "queue_times")
    )
    lens = np.array([told["output_lens"][i] for i in done])
    several = lens > 1
    tpots = np.where(several, (latencies - ttfts) / np.maximum(lens - 1, 1), 0.0)
    seconds = {
        "ttft": ttfts,
        "tpot": tpots[several],
        "itl": np.concatenate([told["itls"][i] for i in done if told["itls"][i]]),
        "e2el": latencies,
        "client_queue_time": queues,
        "e2el_including_client_queue": latencies + queues,
    }
    for name, values in seconds.items():
        expected = [np.mean(values), np.median(values), np.std(values), *np.percentile(values, [95, 99])]
        assert [told[f"{statistic}_{name}_ms"] for statistic in STATISTICS] == pytest.approx(np.array(expected) * 1000)
    tokens_in = sum(told["input_lens"][i] for i in done)
    duration = told["duration"]
    good = (ttfts <= 0.9) & (tpots <= 0.045) & (latencies <= 1.8)
    assert 0 < good.sum() < len(done), "else the limits test nothing"
    for name, amount in (
        ("request_throughput", len(done)),
        ("request_goodput", good.sum()),
        ("output_throughput", lens.sum()),
        ("total_token_throughput", lens.sum() + tokens_in),
    ):
        assert told[name] == pytest.approx(amount / duration), name
    assert (told["completed"], told["failed"]) == (len(done), 60 - len(done))


def test_waiting_for_a_place_is_told_where_places_are_limited() -> None:
    free = make_report(BenchConfig(request_rate=9.0), "m", "d", samples()).to_dict()
    assert "mean_client_queue_time_ms" not in free
    closed = make_report(BenchConfig(concurrency=4), "m", "d", samples())
    assert "mean_e2el_including_client_queue_ms" not in closed.to_dict()
    assert "Mean Client Queue Time (ms):" in closed.to_text()
