"""A run's figures for people: a page to look at and sheets for a spreadsheet. Reads vLLM's names."""

from __future__ import annotations

from backends.bench.pages.comparison import comparison_page
from backends.bench.pages.page import html_page
from backends.bench.pages.sheets import requests_csv, server_csv, summary_csv
from backends.bench.pages.sweep import sweep_page
from backends.bench.pages.verdicts import verification_page

__all__ = [
    "comparison_page",
    "html_page",
    "requests_csv",
    "server_csv",
    "summary_csv",
    "sweep_page",
    "verification_page",
]
