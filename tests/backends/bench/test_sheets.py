"""The sheets: what a spreadsheet reads, and what it must not compute."""

from __future__ import annotations

import csv
import io

from backends.bench.pages import requests_csv, server_csv, summary_csv
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


def test_each_look_at_the_server_is_a_line_and_what_was_not_told_is_empty() -> None:
    one = result(answered(0, 1)) | {"server_metrics": {"times": [0.0, 0.5], "num_requests_running": [1, None]}}
    two = result(answered(0, 1)) | {"server_metrics": {"times": [0.25], "kv_cache_usage_perc": [0.5]}}
    told = lines(server_csv({"one": one, "none": RUNS["one"], "two": two}))
    assert [line["run"] for line in told] == ["one", "one", "two"]
    assert [line["num_requests_running"] for line in told] == ["1", "", ""]
    assert [line["kv_cache_usage_perc"] for line in told] == ["", "", "0.5"]
    assert server_csv(RUNS) == ""
