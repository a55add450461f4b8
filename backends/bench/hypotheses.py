"""The six hypotheses of a proof of concept, each a judgement of reports: no requests, no clock, no terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

from backends.bench.report import Report
from backends.bench.sweep import Point

CLAIMS = {
    1: "the engine starts here and answers",
    2: "its throughput is a multiple of the baseline's",
    3: "each person gets the target speed",
    4: "TTFT p95 stays within its limit at the peak",
    5: "at twice the limit requests wait or are refused, and the engine lives on",
    6: "throughput is a stable share of the computed bound",
}
AFTER_FAILURE = {
    1: "Look into the engine's log, and at `sekisho doctor`. `sekisho plan` tells which models fit.",
    2: (
        "Suspect the settings and measure again: --max-num-seqs of the engine at least as many as are at once, weights "
        "in the same format on both (--quantization), all cores for it (--num-threads), nothing else on the machine. "
        "A gateway lets no more run at once than have its target_tokens_per_second: the engine's own address leaves "
        "that out."
    ),
    3: "Start the engine with a lower --max-num-seqs, or add machines (`backends` in the settings file).",
    4: (
        "Add machines (`backends` in the settings file); `sekisho plan --people` tells how many. Whom they cannot "
        "serve in time, a lower max_queue or queue_timeout refuses at once instead of making everybody wait."
    ),
    5: (
        "Revisit the memory settings of the engine: a lower --max-num-seqs or --max-model-len, --kv-cache-memory or "
        "--gpu-memory-utilization for more room, --kv-cache-dtype fp8 for half the need. `sekisho plan` tells how many "
        "conversations fit."
    ),
    6: "Revisit the assumption that decoding is bound by memory, and the figures and formats that were given.",
}

State = Literal["holds", "fails", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """figures: by name, for programs; `said` has them in words. advice: what to do after this very failure, where more
    is known than AFTER_FAILURE. doubts: why the figures may be the load generator's and not the server's."""

    number: int
    state: State
    said: str
    figures: dict[str, object] = field(default_factory=dict)
    advice: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def claim(self) -> str:
        return CLAIMS[self.number]

    @property
    def what_to_do(self) -> str:
        return (self.advice or AFTER_FAILURE[self.number]) if self.state == "fails" else ""

    def to_dict(self) -> dict[str, Any]:
        """For programs: the claim and what to do are among it."""
        told = asdict(self) | {"claim": self.claim, "what_to_do": self.what_to_do}
        del told["advice"]
        return told


def not_run(number: int, why: str) -> Verdict:
    return Verdict(number, "not run", why)


def failed(number: int, why: str) -> Verdict:
    return Verdict(number, "fails", why)


def answers(report: Report) -> Verdict:
    """1: one request was sent."""
    if not report.completed:
        return failed(1, next(iter(report.errors), "no answer"))
    ttft = report.spreads["ttft"].mean
    said = f"{report.model}: first token after {ttft:.0f} ms, {report.total_output_tokens} tokens"
    return Verdict(1, "holds", said, {"model": report.model, "ttft_ms": ttft, "tokens": report.total_output_tokens})


def beats(ours: Sequence[Report], baseline: Sequence[Report], times: float = 3.0) -> Verdict:
    """2: the same load on both, in turn. Medians are compared; a baseline whose requests failed is none."""
    if lost := sum(run.failed for run in baseline):
        return not_run(2, f"{lost} requests failed on the baseline: {_first_error(baseline)}")
    if lost := sum(run.failed for run in ours):
        return failed(2, f"{lost} requests failed: {_first_error(ours)}")
    here, there = (median(run.output_throughput for run in runs) for runs in (ours, baseline))
    ratio = here / there if there > 0 else 0.0
    said = f"{here:.0f} against {there:.0f} tok/s: {ratio:.1f} x, wanted {times:g} x"
    figures: dict[str, object] = {"ours_tok_s": here, "baseline_tok_s": there, "ratio": ratio, "wanted": times}
    return Verdict(2, "holds" if ratio >= times else "fails", said, figures)


def gives_each(points: Sequence[Point], at: int, target: float) -> Verdict:
    """3: judged at concurrency `at`; the other points are told."""
    by_number = {point.concurrency: point for point in points}
    if at not in by_number:
        return not_run(3, f"nothing was measured at {at} in parallel")
    here = by_number[at]
    told = ", ".join(f"{each}: {by_number[each].per_person_tok_s:.3g}" for each in sorted(by_number))
    speeds = {str(point.concurrency): point.per_person_tok_s for point in points}
    said = f"tok/s each by people at once: {told}; wanted {target:g} at {at}"
    if here.failed or not here.per_person_tok_s:
        said = f"at {at}: {here.missed}"
    figures: dict[str, object] = {"at": at, "per_person_tok_s": speeds, "wanted": target}
    if not here.failed and here.per_person_tok_s >= target:
        return Verdict(3, "holds", said, figures)
    return Verdict(3, "fails", said, figures, _seats(points, at, target))


def _seats(points: Sequence[Point], at: int, target: float) -> str:
    """What `at` people need, by the highest number below which everybody had the target."""
    seats = 0
    for point in sorted(points, key=lambda each: each.concurrency):
        if point.failed or point.per_person_tok_s < target:
            break
        seats = point.concurrency
    if not seats:
        return (
            "Nobody had it, even alone: narrower weights (--quantization), a smaller model or quicker hardware; "
            "`sekisho plan` tells what each gives."
        )
    return (
        f"{seats} at once had it: start the engine with --max-num-seqs {seats}, and the others wait in the gateway's "
        f"queue; or add machines (`backends` in the settings file): {math.ceil(at / seats)} of these for {at}. "
        "`sekisho bench sweep` finds the number between the points."
    )


def starts_soon(report: Report, people: int, limit_ms: float) -> Verdict:
    """4: `people` ask all at once and again as soon as they are answered, so the wait in the queue is in it."""
    ttft = report.spreads["ttft"].p95
    figures: dict[str, object] = {"people": people, "ttft_p95_ms": ttft, "wanted_ms": limit_ms, "failed": report.failed}
    if report.failed:
        said = f"{report.failed} of {report.failed + report.completed} requests failed: {_first_error([report])}"
        return Verdict(4, "fails", said, figures)
    said = f"p95 {ttft / 1000:.2f} s with {people} people, wanted {limit_ms / 1000:g} s"
    return Verdict(4, "holds" if ttft <= limit_ms else "fails", said, figures)


def _first_error(runs: Sequence[Report]) -> str:
    return next((error for run in runs for error in run.errors), "")
