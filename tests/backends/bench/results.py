"""Detailed results as `Report.to_dict(detailed=True)` makes them, from a few numbers."""

from __future__ import annotations

from typing import Any

from backends.bench.client import Sample
from backends.bench.config import BenchConfig
from backends.bench.report import make_report

EVIL = '=HYPERLINK("x")<script>alert(1)</script> 混雑'


def answered(sent: float, *text_times: float) -> Sample:
    return Sample(sent, list(text_times), prompt_tokens=7, output_tokens=len(text_times), counted_by_server=True)


def failed(sent: float, error: str = EVIL) -> Sample:
    return Sample(sent, error=error)


def result(*samples: Sample, **settings: Any) -> dict[str, Any]:
    return make_report(BenchConfig(**settings), "a-model", "20260102-030405", list(samples)).to_dict(detailed=True)
