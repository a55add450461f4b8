"""The result as a Markdown table: a column for each load, a row for each server, and our ratio to every other."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from backends.bench import Report

OURS = "Sekisho"


@dataclass(frozen=True)
class Cell:
    """One run."""

    server: str
    level: int
    report: Report
    memory_bytes: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"server": self.server, "memory_bytes": self.memory_bytes, **self.report.to_dict()}


def markdown(cells: list[Cell]) -> str:
    """Output tokens per second over the whole run / median TTFT; the median of the rounds of each."""
    levels = sorted({cell.level for cell in cells})
    servers = list(dict.fromkeys(cell.server for cell in cells))
    others = [server for server in servers if server != OURS]
    rows = [["in parallel", *map(str, levels), "memory"], ["---"] * (len(levels) + 2)]
    rows += [_server_row(server, levels, cells) for server in servers]
    rows += [_ratio_row(other, levels, cells) for other in others]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _server_row(server: str, levels: list[int], cells: list[Cell]) -> list[str]:
    memory = [cell.memory_bytes for cell in cells if cell.server == server and cell.memory_bytes]
    return [
        server,
        *(_shown(_of(server, level, cells)) for level in levels),
        f"{max(memory) / 1e9:.2f} GB" if memory else "",
    ]


def _shown(runs: list[Report]) -> str:
    if not runs:
        return ""
    failed = sum(run.failed for run in runs)
    return f"{_speed(runs):.0f} / {_ttft(runs):.2f} s" + (f" ({failed} failed)" if failed else "")


def _ratio_row(other: str, levels: list[int], cells: list[Cell]) -> list[str]:
    return [f"{OURS} to {other}", *(_ratio(other, level, cells) for level in levels), ""]


def _ratio(other: str, level: int, cells: list[Cell]) -> str:
    ours, theirs = _of(OURS, level, cells), _of(other, level, cells)
    return f"{_speed(ours) / _speed(theirs):.2f} x" if ours and theirs and _speed(theirs) else ""


def _of(server: str, level: int, cells: list[Cell]) -> list[Report]:
    return [cell.report for cell in cells if (cell.server, cell.level) == (server, level)]


def _speed(runs: list[Report]) -> float:
    return median(run.output_throughput for run in runs)


def _ttft(runs: list[Report]) -> float:
    return median(run.spreads["ttft"].median / 1000 for run in runs)
