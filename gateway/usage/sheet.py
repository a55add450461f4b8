"""A usage report as CSV that a spreadsheet may open: names come from providers and clients, and none may calculate."""

from __future__ import annotations

import csv
import io

from gateway.usage.report import Sums, UsageShown

_OTHERS = "(others)"
# What spreadsheets take for the beginning of a formula, the wide forms of Japanese keyboards too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def as_csv(report: UsageShown) -> str:
    """A row each, without a sum: `others` is the last row where there is any."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((report.by, "name", *Sums.__struct_fields__))
    for row in report.data:
        writer.writerow((safe(row.id), safe(row.name or ""), *_amounts(row)))
    if report.others is not None:
        writer.writerow((_OTHERS, "", *_amounts(report.others)))
    return text.getvalue()


def _amounts(sums: Sums) -> list[int | str]:
    return [getattr(sums, name) for name in Sums.__struct_fields__]


def safe(text: str) -> str:
    """A spreadsheet shows what follows an apostrophe as it stands. Spaces before a sign do not disarm it."""
    return f"'{text}" if text.lstrip(" \u3000").startswith(_FORMULA) else text
