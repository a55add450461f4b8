"""The runs that the six hypotheses need, in order, and the verdict of each as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from backends.bench.config import BenchConfig, BenchError
from backends.bench.hypotheses import (
    Verdict,
    answers,
    beats,
    failed,
    gives_each,
    keeps_its_share,
    not_run,
    starts_soon,
    survives,
)
from backends.bench.report import Report
from backends.bench.sweep import Point, Target, doubling, point_of

Loop = Callable[..., Report]  # (title, config, at once, rounds)
Run = Callable[[str, BenchConfig], Report]  # (what this is, in words; the run) > its report, or BenchError
# The computed tok/s of a server with this model at a batch; None where it is not known.
Bound = Callable[[str], Callable[[int], float] | None]


@dataclass(frozen=True, slots=True)
class Proof:
    """What is asked. limit: of requests at once, as the engine was started (max-num-seqs)."""

    ours: BenchConfig
    baseline: BenchConfig | None = None
    parallel: int = 16
    most: int = 32
    target_tok_s: float = 20.0
    people: int = 50
    ttft_p95_ms: float = 2000.0
    limit: int = 64
    times_baseline: float = 3.0
    rounds: int = 4  # requests that each place of a closed loop sends
    turns: int = 2  # ours, baseline, ours, baseline


def verify(proof: Proof, run: Run, bound: Bound) -> Iterator[Verdict]:
    """All six, in their order. Where the engine does not answer at all, the other five are not run."""
    seeds = count(proof.ours.seed)  # a prompt that was sent before would be found in a prefix cache

    def loop(title: str, config: BenchConfig, at: int, rounds: int = proof.rounds) -> Report:
        number = max(at * rounds, 1)
        return run(title, replace(config, concurrency=at, num_requests=number, seed=next(seeds)))

    try:
        first = loop("one request", proof.ours, 1, 1)
        verdict = answers(first)
    except BenchError as fault:
        verdict = failed(1, str(fault))
    yield verdict
    if verdict.state == "fails":
        yield from (not_run(number, "the engine does not answer") for number in range(2, 7))
        return
    yield _against_the_baseline(proof, loop)
    points: list[Point] = []
    try:
        points += _sweep(proof, loop)
        yield gives_each(points, proof.parallel, proof.target_tok_s)
    except BenchError as fault:
        yield failed(3, str(fault))
    yield _at_the_peak(proof, loop)
    yield _beyond_the_limit(proof, loop)
    yield _against_the_bound(points, bound(first.model))


def _against_the_baseline(proof: Proof, loop: Loop) -> Verdict:
    if proof.baseline is None:
        return not_run(2, "no --baseline was given")
    ours: list[Report] = []
    baseline: list[Report] = []
    for turn in range(1, proof.turns + 1):
        try:
            ours.append(loop(f"ours, turn {turn}", proof.ours, proof.parallel))
        except BenchError as fault:
            return failed(2, str(fault))
        try:
            baseline.append(loop(f"baseline, turn {turn}", proof.baseline, proof.parallel))
        except BenchError as fault:
            return not_run(2, f"the baseline: {fault}")
    return beats(ours, baseline, proof.times_baseline)


def _sweep(proof: Proof, loop: Loop) -> Iterator[Point]:
    target = Target(proof.target_tok_s)
    for at in sorted({*doubling(proof.most), proof.parallel}):
        yield point_of(at, [loop(f"{at} at once", proof.ours, at)], target)


def _at_the_peak(proof: Proof, loop: Loop) -> Verdict:
    try:
        return starts_soon(loop(f"{proof.people} people", proof.ours, proof.people), proof.people, proof.ttft_p95_ms)
    except BenchError as fault:
        return failed(4, str(fault))


def _beyond_the_limit(proof: Proof, loop: Loop) -> Verdict:
    try:
        crowd = loop(f"{2 * proof.limit} at once", proof.ours, 2 * proof.limit, 1)
    except BenchError as fault:
        return failed(5, str(fault))
    try:
        after = loop("one more", proof.ours, 1, 1)
    except BenchError:
        after = None
    return survives(crowd, after, proof.limit)


def _against_the_bound(points: list[Point], bound: Callable[[int], float] | None) -> Verdict:
    if bound is None:
        return not_run(6, "the shape of this model is not known: give --shape, see `sekisho plan --list`")
    return keeps_its_share(points, bound)
