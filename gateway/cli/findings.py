"""What `check` and `doctor` find: how it is with each thing, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Verdict = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True):
    """place: of a setting that stands in a file, its name and the line."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
    place: str = ""

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return ": ".join(filter(None, (self.place, self.subject, self.found))) + remedy


def ok(subject: str, found: str) -> Finding:
    return Finding(subject, "ok", found)


def warn(subject: str, found: str, remedy: str) -> Finding:
    return Finding(subject, "warn", found, remedy)


def fail(subject: str, found: str, remedy: str) -> Finding:
    return Finding(subject, "fail", found, remedy)


def failed(findings: Iterable[Finding]) -> bool:
    return any(finding.verdict == "fail" for finding in findings)
