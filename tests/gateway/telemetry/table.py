"""Reads the tables of metrics in the documentation."""

from __future__ import annotations

from tests.gateway.telemetry.exported import Family
from tests.house.tree import ROOT

_README = ROOT / "gateway" / "telemetry" / "README.md"


def documented(heading: str, *, starred: bool = False) -> dict[str, Family]:
    """The rows of the table under a heading, by name; of those with a star only, where asked."""
    _, _, rest = _README.read_text("utf-8").partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    assert all(len(row) == 5 for row in rows), rows
    return {
        name.strip("`"): Family(kind, frozenset(label for label in labels.replace(",", " ").split()))
        for name, kind, labels, told, _ in rows
        if told.startswith("* ") or not starred
    }
