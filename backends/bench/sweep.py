"""How many at once a server carries while each gets the target: doubling, then bisection. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from backends.bench.report import Report

# A bound is no sharper than the noise of its points: bisection ends within this share of it.
_RESOLUTION = 16
# Below this share of those that were sent at once, the server let some of them wait.
_QUEUED_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Target:
    """tok_s: output tokens a second of each person; ttft_p95_ms: None for no limit."""

    tok_s: float = 20.0
    ttft_p95_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """What a closed loop of `concurrency` gave: medians over its runs.

    per_person_tok_s: 1 / TPOT at its 95th percentile, so that it is what the slow ones get and not the mean; 0
    where there was no gap between tokens.
    decoding: answers that were being written at a time, by Little's law; the others waited or were in their prompt.
    missed: why the target was not met, in words; empty where it was.
    """

    concurrency: int
    runs: int
    output_tok_s: float
    per_person_tok_s: float
    ttft_p95_ms: float
    decoding: float
    failed: int
    missed: str

    @property
    def meets(self) -> bool:
        return not self.missed

    @property
    def queued(self) -> bool:
        return self.decoding < _QUEUED_SHARE * self.concurrency


@dataclass(frozen=True, slots=True)
class Sweep:
    """points: in the order of concurrency. best: the highest that met the target; 0 where one alone did not."""

    points: tuple[Point, ...]
    best: int
    bounded: bool  # a higher one missed the target; else the sweep ended before the server did

    @property
    def max_num_seqs(self) -> int | None:
        """What to start the engine with; None where nobody gets the target."""
        return self.best or None

    def to_dict(self, target: Target) -> dict[str, Any]:
        return {
            "target_tok_s": target.tok_s,
            "target_ttft_p95_ms": target.ttft_p95_ms,
            "best_concurrency": self.best,
            "bounded": self.bounded,
            "max_num_seqs": self.max_num_seqs,
            "points": [asdict(point) | {"meets": point.meets, "queued": point.queued} for point in self.points],
        }


def point_of(concurrency: int, runs: Sequence[Report], target: Target) -> Point:
    """One point from all runs at it."""
    tpot = median(run.spreads["tpot"].p95 for run in runs)
    per_person = 1000 / tpot if tpot > 0 else 0.0
    ttft = median(run.spreads["ttft"].p95 for run in runs)
    failed = sum(run.failed for run in runs)
    error = next((error for run in runs for error in run.errors), "")
    return Point(
        concurrency=concurrency,
        runs=len(runs),
        output_tok_s=median(run.output_throughput for run in runs),
        per_person_tok_s=per_person,
        ttft_p95_ms=ttft,
        decoding=median(map(_decoding, runs)),
        failed=failed,
        missed=f"{failed} requests failed: {error}" if failed else _missed(per_person, ttft, target),
    )


def _missed(per_person: float, ttft: float, target: Target) -> str:
    if per_person == 0:
        return "answers came in one piece, so that nobody saw a speed"
    if per_person < target.tok_s:
        return f"below {target.tok_s:g} tok/s each"
    if target.ttft_p95_ms is not None and ttft > target.ttft_p95_ms:
        return f"TTFT p95 over {target.ttft_p95_ms:g} ms"
    return ""


def _decoding(run: Report) -> float:
    seconds = (run.spreads["e2el"].mean - run.spreads["ttft"].mean) / 1000
    return run.completed * seconds / run.duration if run.duration > 0 else 0.0


def doubling(limit: int) -> Iterator[int]:
    """1, 2, 4, ... and `limit` itself."""
    step = 1
    while step < limit:
        yield step
        step *= 2
    yield limit


def search(measure: Callable[[int], Point], limit: int) -> Sweep:
    """The highest concurrency up to `limit` that meets the target, where every lower one is taken to meet it too."""
    points: dict[int, Point] = {}
    good, bad = 0, limit + 1
    for concurrency in doubling(limit):
        point = points[concurrency] = measure(concurrency)
        if not point.meets:
            bad = concurrency
            break
        good = concurrency
    while bad <= limit and bad - good > max(1, good // _RESOLUTION):
        middle = (good + bad) // 2
        point = points[middle] = measure(middle)
        good, bad = (middle, bad) if point.meets else (good, middle)
    return Sweep(tuple(points[each] for each in sorted(points)), good, bad <= limit)


def advice(sweep: Sweep, target: Target) -> str:
    """What to set, and how sure that is, in a sentence or two."""
    by_number = {point.concurrency: point for point in sweep.points}
    if not sweep.best:
        return (
            f"Nobody gets the target, even alone: {sweep.points[0].missed}. Choose a smaller model or faster hardware."
        )
    best = by_number[sweep.best]
    said = (
        f"Recommended: --max-num-seqs {sweep.best} (`sekisho up --max-num-seqs {sweep.best}`; of another engine its "
        f"own flag, and max_concurrency: {sweep.best} in `backends` of the settings file)."
    )
    if not sweep.bounded:
        said += f" The target of {target.tok_s:g} tok/s was still met there: a higher --max-concurrency may find more."
    if best.queued:
        said += (
            f" Of {best.concurrency} only {best.decoding:.0f} were answered at a time: the others waited for a place, "
            "or for their prompts. If it was for a place, this says little of the server's speed: start it with a "
            "higher --max-num-seqs, or give --ttft-p95. A gateway keeps more waiting than have its "
            "target_tokens_per_second: measure the engine itself."
        )
    return said
