"""The runs that the six hypotheses need, in order, and the verdict of each as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from backends.bench.bound import Ceiling
from backends.bench.config import BenchConfig, BenchError
from backends.bench.crowd import survives
from backends.bench.hypotheses import Verdict, answers, beats, failed, gives_each, not_run, starts_soon
from backends.bench.report import Report
from backends.bench.share import keeps_its_share, shares_of
from backends.bench.sweep import Target, doubling, point_of
from backends.bench.witness import Witness

Run = Callable[[str, BenchConfig], Report]  # (what this is, in words; the run) > its report, or BenchError
# What bounds a server with this model; or why that is not known, in words.
CeilingOf = Callable[[str], Ceiling | str]


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
    repeats: int = 3  # runs of each point of the sweep, and turns of ours and the baseline


@dataclass(frozen=True, slots=True)
class Tools:
    """What a proof is made with. watch: looks at the engine for as long as its context is open."""

    run: Run
    ceiling: CeilingOf
    watch: Callable[[], AbstractContextManager[Witness]]


@dataclass(slots=True)
class _Trial:
    """One proof under way: no two of its runs send the same prompts, which a prefix cache would find again."""

    proof: Proof
    tools: Tools
    seeds: Iterator[int]
    strained: dict[str, str] = field(default_factory=dict)  # title of a run > why the generator was its bottleneck

    def loop(self, title: str, config: BenchConfig, at: int, rounds: int | None = None) -> Report:
        """A closed loop of `at` requests."""
        number = at * (rounds or self.proof.rounds)
        report = self.tools.run(title, replace(config, concurrency=at, num_requests=number, seed=next(self.seeds)))
        if reasons := report.strain.bottlenecks:
            self.strained[title] = "; ".join(reasons)
        return report

    def doubted(self, verdict: Verdict) -> Verdict:
        """With the doubts about the runs since the last verdict."""
        doubts = tuple(f"{title}: {reasons}" for title, reasons in self.strained.items())
        self.strained.clear()
        return replace(verdict, doubts=doubts)


def verify(proof: Proof, tools: Tools) -> Iterator[Verdict]:
    """All six, in their order. Where the engine does not answer at all, the other five are not run."""
    trial = _Trial(proof, tools, count(proof.ours.seed))
    try:
        first = trial.loop("one request", proof.ours, 1, 1)
        verdict = answers(first)
    except BenchError as fault:
        verdict = failed(1, str(fault))
    yield trial.doubted(verdict)
    if verdict.state == "fails":
        yield from (not_run(number, "the engine does not answer") for number in range(2, 7))
        return
    yield trial.doubted(_against_the_baseline(trial))
    swept: dict[int, list[Report]] = {}
    yield trial.doubted(_each_at_his_speed(trial, swept))
    yield trial.doubted(_at_the_peak(trial))
    yield trial.doubted(_beyond_the_limit(trial))
    yield _against_the_bound(proof, swept, tools.ceiling(first.model))


def _against_the_baseline(trial: _Trial) -> Verdict:
    proof = trial.proof
    if proof.baseline is None:
        return not_run(2, "no --baseline was given")
    ours: list[Report] = []
    baseline: list[Report] = []
    for turn in range(1, proof.repeats + 1):
        try:
            ours.append(trial.loop(f"ours, turn {turn}", proof.ours, proof.parallel))
        except BenchError as fault:
            return failed(2, str(fault))
        try:
            baseline.append(trial.loop(f"baseline, turn {turn}", proof.baseline, proof.parallel))
        except BenchError as fault:
            return not_run(2, f"the baseline: {fault}")
    return beats(ours, baseline, proof.times_baseline)


def _each_at_his_speed(trial: _Trial, swept: dict[int, list[Report]]) -> Verdict:
    """The sweep, round after round, so that what changes on the machine meets all points; `swept` keeps its reports."""
    proof, target = trial.proof, Target(trial.proof.target_tok_s)
    numbers = sorted({*doubling(proof.most), proof.parallel})
    try:
        for repeat in range(1, proof.repeats + 1):
            for at in numbers:
                report = trial.loop(f"{at} at once, run {repeat}", proof.ours, at)
                swept.setdefault(at, []).append(report)
    except BenchError as fault:
        return failed(3, str(fault))
    points = [point_of(at, reports, target) for at, reports in swept.items()]
    return gives_each(points, proof.parallel, proof.target_tok_s)


def _at_the_peak(trial: _Trial) -> Verdict:
    proof = trial.proof
    try:
        report = trial.loop(f"{proof.people} people", proof.ours, proof.people)
    except BenchError as fault:
        return failed(4, str(fault))
    return starts_soon(report, proof.people, proof.ttft_p95_ms)


def _beyond_the_limit(trial: _Trial) -> Verdict:
    proof = trial.proof
    after: Report | None = None
    with trial.tools.watch() as witness:
        try:
            crowd = trial.loop(f"{2 * proof.limit} at once", proof.ours, 2 * proof.limit, 1)
        except BenchError as fault:
            return failed(5, str(fault))
        with suppress(BenchError):
            after = trial.loop("one more", proof.ours, 1, 1)
    return survives(crowd, after, proof.limit, witness)


def _against_the_bound(proof: Proof, swept: Mapping[int, Sequence[Report]], ceiling: Ceiling | str) -> Verdict:
    """More at once than the limit have no more of the engine: the others wait."""
    if isinstance(ceiling, str):
        return not_run(6, ceiling)
    shares = shares_of(swept, lambda at, work: ceiling.at(min(at, proof.limit), work))
    return keeps_its_share(shares, ceiling.about)
