"""The sixth hypothesis: whether measured throughput is a stable share of the computed bound. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from backends.bench.bound import Bound, Work, work_of
from backends.bench.hypotheses import Verdict, not_run
from backends.bench.report import Report

# The largest share may be this many times the smallest. A plan by one ratio between them is then wrong by at most
# sqrt(2) either way: less than half of a doubling, the step in which a plan tells batches and machines are added.
STABLE_WITHIN = 2.0

_TOO_LOW = (
    "The bound's figures are too low for what runs: give --hardware, or --bandwidth and --operations, of the machine "
    "of the engine, and --weights, the format that it loaded."
)


class Share(NamedTuple):
    """Measured / computed at a number at once: over its runs. `bound`: that of the run in the middle."""

    at: int
    runs: tuple[float, ...]
    bound: Bound

    @property
    def middle(self) -> float:
        return median(self.runs)


def shares_of(runs: Mapping[int, Sequence[Report]], bound: Callable[[int, Work], Bound]) -> list[Share]:
    """Of the numbers at once at which no request failed, in ascending order."""
    found = []
    for at, reports in sorted(runs.items()):
        if any(report.failed for report in reports):
            continue
        bounds = [bound(at, work_of(report)) for report in reports]
        ratios = [report.output_throughput / each.tok_s for report, each in zip(reports, bounds, strict=True)]
        found.append(Share(at, tuple(ratios), bounds[ratios.index(sorted(ratios)[len(ratios) // 2])]))
    return found


def keeps_its_share(shares: Sequence[Share], about: str = "") -> Verdict:
    """6: every point counts, at the noise of its runs. It holds where any run of one point / any run of another stays
    within STABLE_WITHIN, and fails where the nearest runs of two points do not; between these nothing is shown. A
    point all of whose runs are over 1 disproves the bound. about: of what the bound is.
    """
    if len(shares) < 2:
        return not_run(6, "fewer than two points without failures: nothing to compare")
    low = min(shares, key=lambda share: min(share.runs))
    high = max(shares, key=lambda share: max(share.runs))
    widest = max(high.runs) / min(low.runs)
    nearest = max(min(share.runs) for share in shares) / min(max(share.runs) for share in shares)
    over = [share for share in shares if min(share.runs) > 1]
    said = f"measured / computed by people at once: {', '.join(map(_shown, shares))}. Computed for {about}: "
    said += f"{_who_set(shares)}. "
    figures = _figures(shares, widest, nearest)
    if over:
        said += f"Over 100 % the bound itself is wrong: {over[0].bound.set_by} at {over[0].at}"
        return Verdict(6, "fails", said, figures, _TOO_LOW)
    if max(high.runs) <= 1 and widest <= STABLE_WITHIN:
        return Verdict(6, "holds", said + f"Within {widest:.2f} x of each other, wanted {STABLE_WITHIN:g} x", figures)
    if nearest > STABLE_WITHIN:
        said += f"Apart by {nearest:.2f} x at the least, wanted {STABLE_WITHIN:g} x"
        return Verdict(6, "fails", said, figures, _unstable(shares))
    said += (
        f"Apart by {nearest:.2f} to {widest:.2f} x, wanted {STABLE_WITHIN:g} x and no run over 100 %: the runs of one "
        "point differ too much to tell. Measure on a machine that does nothing else"
    )
    return Verdict(6, "not run", said, figures)


def _unstable(shares: Sequence[Share]) -> str:
    low = min(shares, key=lambda share: share.middle)
    high = max(shares, key=lambda share: share.middle)
    measured = low.middle * low.bound.tok_s
    return (
        f"Plan with the least share: `sekisho plan --measured {low.at}:{measured:.0f}`. The bound was set by "
        f"{low.bound.set_by} there and by {high.bound.set_by} at {high.at}: look for what else takes time at {low.at} "
        "(other programs, --num-threads, a --limit that is not the engine's --max-num-seqs)."
    )


def _who_set(shares: Sequence[Share]) -> str:
    """Which limit is the bound, at which numbers at once."""
    numbers: dict[str, list[str]] = {}
    for share in shares:
        numbers.setdefault(share.bound.set_by, []).append(str(share.at))
    return "bound by " + ", by ".join(f"{name} at {', '.join(each)}" for name, each in numbers.items())


def _shown(share: Share) -> str:
    spread = f" ({min(share.runs):.0%}-{max(share.runs):.0%})" if len(share.runs) > 1 else ""
    return f"{share.at}: {share.middle:.0%}{spread}"


def _figures(shares: Sequence[Share], widest: float, nearest: float) -> dict[str, object]:
    points = {
        str(share.at): {
            "share": share.middle,
            "runs": list(share.runs),
            "bound_tok_s": share.bound.tok_s,
            "set_by": share.bound.set_by,
        }
        for share in shares
    }
    return {"points": points, "widest": widest, "nearest": nearest, "wanted_within": STABLE_WITHIN}
