"""The load generator: measures any OpenAI-compatible server in the same way. Knows nothing of the gateway."""

from __future__ import annotations

from backends.bench.comparison import Comparison, compare
from backends.bench.config import BenchConfig, BenchError, parse_goodput, validate
from backends.bench.datasets import usual_lengths
from backends.bench.live import live_progress
from backends.bench.report import Report
from backends.bench.runner import Progress, measure, run_bench

__all__ = [
    "BenchConfig",
    "BenchError",
    "Comparison",
    "Progress",
    "Report",
    "compare",
    "live_progress",
    "measure",
    "parse_goodput",
    "run_bench",
    "usual_lengths",
    "validate",
]
