"""The sheets: what a spreadsheet reads, and what it must not compute."""

from __future__ import annotations

import csv
import io

from backends.bench.pages import requests_csv, summary_csv
from tests.backends.bench.results import EVIL, answered, failed, result

RUNS = {
    "one": result(answered(10.0, 11.0, 13.0), failed(12.0)),
    "two": result(answered(0.0, 0.5), goodput={"ttft": 1000}),
}


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_request_is_a_line() -> None:
    first, second, third = lines(requests_csv(RUNS))
    assert first == {
        "run": "one",
        "start": "0.0",
        "ttft": "1.0",
        "e2el": "3.0",
        "input_tokens": "7",
        "output_tokens": "2",
        "error": "",
    }
    assert (second["start"], second["ttft"], second["e2el"]) == ("2.0", "", "")
    assert (third["run"], third["e2el"]) == ("two", "0.5")


def test_an_error_stays_text_in_a_spreadsheet() -> None:
    assert lines(requests_csv(RUNS))[1]["error"] == f"'{EVIL}"
    assert float(lines(requests_csv({"x": result(answered(0, 1))}))[0]["ttft"]) == 1


def test_each_run_is_a_line_of_the_summary_by_the_names_of_its_json() -> None:
    one, two = lines(summary_csv(RUNS))
    assert (one["run"], one["completed"], one["failed"], one["request_goodput"]) == ("one", "1", "1", "")
    assert float(two["mean_ttft_ms"]) == 500
    assert float(two["request_goodput"]) == RUNS["two"]["request_goodput"]
    assert not {"ttfts", "itls", "errors", "error_counts"} & set(one)
