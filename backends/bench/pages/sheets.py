"""The figures as CSV, for a spreadsheet: one line a request, one a look at the server, or one a run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from backends.bench.pages.figures import Result, requests


def requests_csv(runs: Mapping[str, Result]) -> str:
    """Times in seconds, from the first request of the run. Empty where something did not come."""
    head = ("run", "start", "ttft", "e2el", "input_tokens", "output_tokens", "error")
    return _sheet(
        head,
        (
            (name, one.start, one.ttft, one.latency, one.input_tokens, one.output_tokens, one.error)
            for name, result in runs.items()
            for one in requests(result)
        ),
    )


def server_csv(runs: Mapping[str, Result]) -> str:
    """What each server told of itself, by vLLM's names; empty where none told anything."""
    told = {name: result["server_metrics"] for name, result in runs.items() if result.get("server_metrics")}
    columns = list(dict.fromkeys(column for series in told.values() for column in series))
    lines = (
        (name, *(series[column][index] if column in series else None for column in columns))
        for name, series in told.items()
        for index in range(len(series["times"]))
    )
    return _sheet(["run", *columns], lines) if told else ""


def summary_csv(runs: Mapping[str, Result]) -> str:
    """A column for each figure that any run has, by the name it has in JSON."""
    names = [name for result in runs.values() for name, value in result.items() if _is_figure(value)]
    columns = list(dict.fromkeys(names))
    return _sheet(
        ["run", *columns], ([name, *(result.get(column) for column in columns)] for name, result in runs.items())
    )


def _is_figure(value: object) -> bool:
    return not isinstance(value, (list, tuple, Mapping))


def _sheet(head: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in line] for line in lines)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would compute is told to be text: an error's words are a server's."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
