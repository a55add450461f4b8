"""The six hypotheses of a proof of concept, each a judgement of reports: no requests, no clock, no terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

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
    1: "Choose other hardware, or read the engine's log.",
    2: "Suspect the settings (max-num-seqs, formats, threads) and measure again.",
    3: "Lower max-num-seqs, or add machines.",
    4: "Add machines.",
    5: "Revisit the memory settings: max-num-seqs, max-model-len, gpu-memory-utilization.",
    6: "Revisit the assumption that decoding is bound by memory, and the bandwidth and formats that were given.",
}

# The largest measured share of the bound may be this many times the smallest.
STABLE_WITHIN = 2.0
# What a server may say to one request too many: wait and try again.
_REFUSED = re.compile(r"(429|503)\b")

State = Literal["holds", "fails", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """figures: by name, for programs; `said` has them in words."""

    number: int
    state: State
    said: str
    figures: dict[str, object] = field(default_factory=dict)

    @property
    def claim(self) -> str:
        return CLAIMS[self.number]

    @property
    def what_to_do(self) -> str:
        return AFTER_FAILURE[self.number] if self.state == "fails" else ""


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
    told = ", ".join(f"{each}: {by_number[each].per_person_tok_s:.0f}" for each in sorted(by_number))
    speeds = {str(point.concurrency): point.per_person_tok_s for point in points}
    said = f"tok/s each by people at once: {told}; wanted {target:g} at {at}"
    if here.failed or not here.per_person_tok_s:
        said = f"at {at}: {here.missed}"
    figures: dict[str, object] = {"at": at, "per_person_tok_s": speeds, "wanted": target}
    return Verdict(3, "holds" if not here.failed and here.per_person_tok_s >= target else "fails", said, figures)


def starts_soon(report: Report, people: int, limit_ms: float) -> Verdict:
    """4: `people` ask all at once and again as soon as they are answered, so the wait in the queue is in it."""
    ttft = report.spreads["ttft"].p95
    figures: dict[str, object] = {"people": people, "ttft_p95_ms": ttft, "wanted_ms": limit_ms, "failed": report.failed}
    if report.failed:
        said = f"{report.failed} of {report.failed + report.completed} requests failed: {_first_error([report])}"
        return Verdict(4, "fails", said, figures)
    said = f"p95 {ttft / 1000:.2f} s with {people} people, wanted {limit_ms / 1000:g} s"
    return Verdict(4, "holds" if ttft <= limit_ms else "fails", said, figures)


def survives(crowd: Report, after: Report | None, limit: int) -> Verdict:
    """5: `crowd` are twice the limit at once; `after` is one request later, None where it could not be sent."""
    refused = sum(count for error, count in crowd.errors.items() if _REFUSED.match(error))
    lost = crowd.failed - refused
    alive = after is not None and after.completed > 0 and not after.failed
    said = f"of {2 * limit} at once {crowd.completed} were answered, {refused} refused, {lost} lost"
    said += ", and it answers afterwards" if alive else "; afterwards it does not answer"
    if lost:
        said += f": {next(error for error in crowd.errors if not _REFUSED.match(error))}"
    figures: dict[str, object] = {
        "limit": limit,
        "answered": crowd.completed,
        "refused": refused,
        "lost": lost,
        "alive": alive,
        "ttft_p95_ms": crowd.spreads["ttft"].p95,
    }
    holds = alive and not lost and crowd.completed > 0
    return Verdict(5, "holds" if holds else "fails", said, figures)


def keeps_its_share(points: Sequence[Point], bound: Callable[[int], float]) -> Verdict:
    """6: `bound` is the computed tok/s of the server at a batch. A share over 1 disproves the bound itself."""
    usable = [point for point in points if not point.failed and not point.queued]
    if len(usable) < 2:
        return not_run(6, "fewer than two points without failures and waiting: nothing to compare")
    shares = {point.concurrency: point.output_tok_s / bound(point.concurrency) for point in usable}
    least, most = min(shares.values()), max(shares.values())
    said = "measured / computed by people at once: " + ", ".join(f"{n}: {share:.0%}" for n, share in shares.items())
    if most > 1:
        said += "; over 100 % the bound itself is wrong"
    else:
        said += f"; wanted within {STABLE_WITHIN:g} x of each other"
    stable = most <= 1 and most <= STABLE_WITHIN * least
    figures: dict[str, object] = {"share": {str(number): share for number, share in shares.items()}}
    return Verdict(6, "holds" if stable else "fails", said, figures)


def _first_error(runs: Sequence[Report]) -> str:
    return next((error for run in runs for error in run.errors), "")
