"""The six hypotheses against scripted servers: what each does makes one hold, fail, or say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backends.bench import BenchConfig, run_bench
from backends.bench.bound import Ceiling, Rates
from backends.bench.hypotheses import Verdict
from backends.bench.verification import Proof, Tools, verify
from backends.bench.witness import witnessed
from backends.capacity import SHAPES
from tests.backends.bench.server import Script, serving

NEVER, ALWAYS = 1e12, 1e-12
LOAD = BenchConfig(input_tokens=24, output_tokens=5)
# Small, and with limits that no machine's mood can touch.
PROOF = Proof(
    LOAD,
    parallel=2,
    most=2,
    target_tok_s=ALWAYS,
    people=2,
    ttft_p95_ms=NEVER,
    limit=8,
    times_baseline=ALWAYS,
    rounds=1,
    repeats=1,
)
SLOW_MACHINE = Ceiling(SHAPES["smollm2-135m"], "Q4_1", Rates(1.0), "a slow machine")
METRICS = "sekisho_engine_num_requests_running {}\nsekisho_engine_num_requests_waiting {}\n"


async def verdicts(
    folder: Path, proof: Proof = PROOF, ours: Script | None = None, baseline: Script | None = None
) -> Mapping[int, Verdict]:
    async with (
        serving(folder / "a", ours or Script(gap_s=0.01)) as url,
        serving(folder / "b", baseline or Script()) as other,
    ):
        asked = replace(proof, ours=replace(LOAD, url=url), baseline=replace(LOAD, url=other))
        tools = Tools(
            run=lambda title, config: run_bench(config),
            ceiling=lambda model: SLOW_MACHINE,
            watch=lambda: witnessed(url, metrics=False),
        )
        found = await asyncio.to_thread(lambda: list(verify(asked, tools)))
    return {verdict.number: verdict for verdict in found}


async def test_a_server_that_does_all_that_is_asked_holds_five_and_disproves_a_bound_of_a_slower_machine(
    tmp_path: Path,
) -> None:
    found = await verdicts(tmp_path, ours=Script(gap_s=0.01, room=2))
    assert [verdict.state for verdict in found.values()] == ["holds"] * 5 + ["fails"]
    figures = found[5].to_dict()["figures"]
    assert figures["answered"] + figures["refused"] == 16
    assert figures["refused_with_retry_after"] == figures["refused"] > 0
    assert "Over 100 %" in found[6].said


@pytest.mark.parametrize(
    ("number", "proof"),
    [
        (2, replace(PROOF, times_baseline=NEVER)),
        (3, replace(PROOF, target_tok_s=NEVER)),
        (4, replace(PROOF, ttft_p95_ms=ALWAYS)),
    ],
)
async def test_what_is_not_reached_fails_and_says_what_to_do(tmp_path: Path, number: int, proof: Proof) -> None:
    found = await verdicts(tmp_path, proof)
    assert [each for each in (2, 3, 4) if found[each].state == "fails"] == [number]
    assert found[number].what_to_do


async def test_a_server_that_breaks_at_twice_its_limit_fails_the_fifth(tmp_path: Path) -> None:
    found = await verdicts(tmp_path, ours=Script(gap_s=0.01, room=2, refusal=500))
    assert found[5].state == "fails"
    assert "lost, and it answers afterwards: 500: too many" in found[5].said


async def test_a_server_whose_limit_is_higher_shows_nothing_of_the_fifth(tmp_path: Path) -> None:
    found = await verdicts(tmp_path, ours=Script(metrics=[METRICS.format(16, 0)]))
    assert found[5].state == "not run"
    queue = await verdicts(tmp_path, ours=Script(metrics=[METRICS.format(16, 1)]))
    assert queue[5].state == "holds"


async def test_a_baseline_that_refuses_shows_nothing_of_the_second(tmp_path: Path) -> None:
    found = await verdicts(tmp_path, baseline=Script(status=500))
    assert found[2].state == "not run"
    assert "500: no room" in found[2].said


async def test_a_server_that_refuses_everybody_fails_the_first_and_nothing_else_is_run(tmp_path: Path) -> None:
    found = await verdicts(tmp_path, ours=Script(status=500))
    assert [verdict.state for verdict in found.values()] == ["fails", *["not run"] * 5]
