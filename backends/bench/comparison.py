"""The same load on several servers in turn, round after round, and how they compare. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from backends.bench.config import BenchConfig, BenchError
from backends.bench.report import Report

# By their names in a report's JSON.
FIGURES = (
    "request_throughput",
    "output_throughput",
    "median_ttft_ms",
    "p95_ttft_ms",
    "median_tpot_ms",
    "p95_tpot_ms",
    "median_e2el_ms",
    "failed",
)


class Ratio(NamedTuple):
    """The first server's figure / another's in the same round: median, least and greatest over the rounds."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}-{self.greatest:.2f})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rounds[r][t]` is the report of target t in round r; the first target is compared with each of the others.

    `ended` says why it ended before its time: then the last round may lack reports.
    """

    targets: tuple[BenchConfig, ...]
    rounds: tuple[tuple[Report, ...], ...]
    ended: str = ""

    def figure(self, name: str, target: int) -> float | None:
        """The median over the rounds; None where it was not measured."""
        figures = [_figure(reports[target], name) for reports in self.rounds if target < len(reports)]
        return median(figures) if figures else None

    def ratio(self, name: str, other: int) -> Ratio | None:
        """Over the rounds in which both were measured; None without any, or where the other's figure is 0 in one."""
        both = [reports for reports in self.rounds if other < len(reports)]
        pairs = [(_figure(reports[0], name), _figure(reports[other], name)) for reports in both]
        if not pairs or not all(theirs for _, theirs in pairs):
            return None
        ratios = [ours / theirs for ours, theirs in pairs]
        return Ratio(median(ratios), min(ratios), max(ratios))

    def named(self) -> dict[str, Report]:
        """Every run, by a name of its own."""
        return {
            f"{chr(ord('A') + at)}{number} {target.url}": reports[at]
            for number, reports in enumerate(self.rounds, 1)
            for at, (target, _) in enumerate(zip(self.targets, reports, strict=False))
        }

    def to_text(self) -> str:
        names = [chr(ord("A") + target) for target in range(len(self.targets))]
        lines = [f"{name}: {target.url}" for name, target in zip(names, self.targets, strict=True)]
        lines += ["", row("", names, [f"A / {name}" for name in names[1:]])]
        others = range(1, len(self.targets))
        for name in FIGURES:
            found = [self.figure(name, target) for target in range(len(self.targets))]
            figures = ["-" if figure is None else f"{figure:.2f}" for figure in found]
            lines.append(row(name, figures, [str(self.ratio(name, other) or "") for other in others]))
        lines += ["", f"Medians of {len(self.rounds)} rounds; in brackets the least and the greatest ratio of a round."]
        if any(report.strain.bottlenecks for reports in self.rounds for report in reports):
            lines.append("The load generator was a bottleneck in some runs: the ratios may be too close to 1.")
        return "\n".join([*lines, self.ended] if self.ended else lines)

    def to_dict(self, *, detailed: bool = False) -> dict[str, Any]:
        runs = [
            {"round": number, "target": target.url, **report.to_dict(detailed=detailed)}
            for number, reports in enumerate(self.rounds, 1)
            for target, report in zip(self.targets, reports, strict=False)
        ]
        ratios = [{"to": target.url, **self._ratios(other)} for other, target in enumerate(self.targets) if other]
        ended = {"ended": self.ended} if self.ended else {}
        places = range(len(self.targets))
        medians = [{name: self.figure(name, place) for name in FIGURES} for place in places]
        targets = [target.url for target in self.targets]
        return {"targets": targets, **ended, "medians": medians, "ratios": ratios, "runs": runs}

    def _ratios(self, other: int) -> dict[str, dict[str, float] | None]:
        found = {name: self.ratio(name, other) for name in FIGURES}
        return {name: ratio and ratio._asdict() for name, ratio in found.items()}


def compare(targets: Sequence[BenchConfig], rounds: int, run: Callable[[BenchConfig], Report]) -> Comparison:
    """A B A B: what changes on the machine meanwhile meets all. Lengths and arrivals are the same in every run; texts
    are new in each, since two of the targets may lead to one engine, which would know a prompt that it has seen.

    A server that has gone away ends it; what was measured until then is kept. Raises BenchError where that is nothing.
    """
    made: list[tuple[Report, ...]] = []
    for number in range(rounds):
        first = targets[0].seed + number * len(targets)
        made.append(())
        for at, target in enumerate(targets):
            try:
                made[-1] += (run(replace(target, text_seed=first + at)),)
            except BenchError as fault:
                if not made[0]:
                    raise
                ended = f"It ended in round {number + 1} of {rounds}, at {target.url}: {fault}"
                return Comparison(tuple(targets), tuple(made), ended)
    return Comparison(tuple(targets), tuple(made))


def _figure(report: Report, name: str) -> float:
    return float(report.to_dict()[name])


def row(name: str, figures: Sequence[str], ratios: Sequence[str]) -> str:
    """Of a table of servers or runs side by side."""
    return (
        f"{name:<24}" + "".join(f"{figure:>12}" for figure in figures) + "".join(f"{ratio:>20}" for ratio in ratios)
    ).rstrip()
