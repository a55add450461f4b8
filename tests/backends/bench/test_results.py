"""Results that were kept: read again, checked, and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.bench import BenchConfig, BenchError, compare
from backends.bench.pages import html_page
from backends.bench.results import compared, read_results
from tests.backends.bench.reports import report
from tests.backends.bench.results import answered, failed, result

DETAILS = ("start_times", "ttfts", "itls", "input_lens", "output_lens", "errors")


def kept(folder: Path, name: str, held: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(held), "utf-8")
    return path


def test_a_run_is_read_as_it_was_written_and_named_by_its_file(tmp_path: Path) -> None:
    made = result(answered(0, 1, 2), failed(1), goodput={"ttft": 500})
    (name,), (read,) = zip(*read_results([kept(tmp_path, "monday.json", made)]).items(), strict=True)
    assert name == "monday"
    assert read == {key: value for key, value in made.items() if value is not None}
    assert html_page({name: read}) == html_page({name: made})


def test_runs_of_a_comparison_and_of_a_sweep_are_told_apart(tmp_path: Path) -> None:
    targets = [BenchConfig(url="http://a"), BenchConfig(url="http://b")]
    both = compare(targets, 2, lambda target: report()).to_dict()
    sweep = {"points": [], "runs": [report(4).to_dict(), report(4).to_dict()]}
    paths = [kept(tmp_path, "ab.json", both), kept(tmp_path, "sweep.json", sweep), kept(tmp_path, "ab.json", both)]
    assert list(read_results(paths[:2])) == [
        "ab, http://a, round 1",
        "ab, http://b, round 1",
        "ab, http://a, round 2",
        "ab, http://b, round 2",
        "sweep, 4 at once",
        "sweep, 4 at once (2)",
    ]


def test_the_first_is_compared_with_each_of_the_others(tmp_path: Path) -> None:
    fast, slow = report(each=50.0).to_dict(), report(each=25.0).to_dict()
    del slow["p95_tpot_ms"]  # vLLM keeps those that it was asked for
    text = compared(read_results([kept(tmp_path, "fast.json", fast), kept(tmp_path, "slow.json", slow)]))
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert lines["A:"] == ["fast"]
    assert lines["median_tpot_ms"] == ["20.00", "40.00", "0.50"]
    assert lines["p95_tpot_ms"] == ["20.00", "-"]
    assert lines["failed"] == ["0.00", "0.00"], "no ratio to none"
    assert "request_goodput" not in lines, "no run has one"


def test_what_is_no_figure_in_a_strange_file_is_none(tmp_path: Path) -> None:
    strange = {"output_throughput": 2.0, "p95_ttft_ms": "fast", "date": 5, "model_id": ["m"], "failed": 1}
    (name,) = runs = read_results([kept(tmp_path, "strange.json", strange)])
    assert "p95_ttft_ms" not in compared(runs)
    assert name in html_page(runs)


def test_details_that_an_older_vllm_keeps_in_part_are_left_out(tmp_path: Path) -> None:
    made: dict[str, Any] = result(answered(0, 1, 2))
    del made["start_times"]
    (read,) = read_results([kept(tmp_path, "old.json", made)]).values()
    assert not set(DETAILS) & set(read)
    assert "<svg" in html_page({"old": read})


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ([], "Expected `object`"),
        ({}, "expected output_throughput"),
        ({"output_throughput": "fast"}, r"Expected `float`, got `str` - at `\$.output_throughput`"),
        ({"runs": [{"output_throughput": 1.0}, {}]}, "expected output_throughput"),
        (result(answered(0, 1)) | {"ttfts": []}, "lists of the same length"),
        (result(answered(0, 1)) | {"ttfts": ["soon"]}, "ttfts"),
        (result(answered(0, 1)) | {"server_metrics": {"times": [1.0], "num_requests_running": []}}, "same length"),
        (result(answered(0, 1)) | {"server_metrics": {"num_requests_running": [1]}}, "times"),
        (result(answered(0, 1)) | {"server_metrics": {"times": [None]}}, "times"),
        (result(answered(0, 1)) | {"goodput": {"tpot": 0}}, "goodput"),
    ],
)
def test_what_is_no_result_is_told_with_its_file(tmp_path: Path, held: object, says: str) -> None:
    with pytest.raises(BenchError, match=rf"bad\.json is no result of a benchmark: .*{says}"):
        read_results([kept(tmp_path, "bad.json", held)])


def test_a_file_that_is_not_there_or_no_json_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="No such file"):
        read_results([tmp_path / "none.json"])
    (tmp_path / "text.json").write_text("no json", "utf-8")
    with pytest.raises(BenchError, match=r"text\.json is no result"):
        read_results([tmp_path / "text.json"])
