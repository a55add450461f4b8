"""The files that a measurement leaves. A path that cannot be written is told before measuring."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.cli.console import CliError, note


def refuse_unwritable(**options: Path | None) -> None:
    """By the options' names, all at once. Raises CliError."""
    faults = [
        f"--{name.replace('_', '-')} is {path}: expected a file in a folder that exists and can be written"
        for name, path in options.items()
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK))
    ]
    if faults:
        raise CliError("the figures could not be kept:\n  " + "\n  ".join(faults), exit_code=2)


def write_pages(runs: Mapping[str, Mapping[str, Any]], html: Path | None, csv: Path | None) -> None:
    """`runs`: a name for each `Report.to_dict(detailed=True)`."""
    from backends.bench.pages import html_page, requests_csv, server_csv, summary_csv

    if html is not None:
        write_file(html, html_page(runs))
    if csv is not None:
        write_file(csv, requests_csv(runs))
        write_file(csv.with_stem(f"{csv.stem}-summary"), summary_csv(runs))
        if told := server_csv(runs):
            write_file(csv.with_stem(f"{csv.stem}-server"), told)


def write_file(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="")
    note(f"Written to {path}")
