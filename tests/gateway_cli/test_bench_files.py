"""`sekisho bench serve` and `bench sweep` with --html and --csv: the files that they leave."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.console import CliError
from gateway.cli.main import app
from tests.backends.bench.server import Script, serving

FEW = ("bench", "serve", "--num-requests", "3", "--output-tokens", "4")


async def test_a_run_leaves_a_page_and_three_sheets(tmp_path: Path) -> None:
    page, sheet = tmp_path / "report.html", tmp_path / "report.csv"
    async with serving(tmp_path / "s", Script(metrics=["llamacpp:requests_processing 1\n"])) as url:
        arguments = [*FEW, "--url", url, "--html", str(page), "--csv", str(sheet)]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    assert page.read_text("utf-8").count("<svg") >= 3
    with sheet.open(encoding="utf-8", newline="") as requests:
        assert len(list(csv.DictReader(requests))) == 3
    with (tmp_path / "report-summary.csv").open(encoding="utf-8", newline="") as summary:
        assert [line["completed"] for line in csv.DictReader(summary)] == ["3"]
    with (tmp_path / "report-server.csv").open(encoding="utf-8", newline="") as server:
        assert {line["num_requests_running"] for line in csv.DictReader(server)} == {"1"}
    for written in (page, sheet, tmp_path / "report-summary.csv", tmp_path / "report-server.csv"):
        assert f"Written to {written}" in result.stderr


async def test_a_sweep_draws_one_run_of_each_number_at_once(tmp_path: Path) -> None:
    page, sheet, document = tmp_path / "sweep.html", tmp_path / "sweep.csv", tmp_path / "sweep.json"
    options = ("--quick", "--repeats", "2", "--max-concurrency", "2", "--target", "0.1", "--output-tokens", "4")
    async with serving(tmp_path / "s", Script(gap_s=0.005)) as url:
        files = ("--html", str(page), "--csv", str(sheet), "--output", str(document))
        arguments = ["bench", "sweep", *options, "--url", url, *files]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    for number in ("1 at once", "2 at once"):
        assert f"Requests running: {number}" in page.read_text("utf-8")
    with sheet.open(encoding="utf-8", newline="") as requests:
        assert [line["run"] for line in csv.DictReader(requests)] == ["1 at once"] * 2 + ["2 at once"] * 4
    runs = json.loads(document.read_text("utf-8"))["runs"]
    assert [run["max_concurrency"] for run in runs] == [1, 1, 2, 2]
    assert "ttfts" not in runs[0]


def test_where_nothing_can_be_written_nothing_is_measured(tmp_path: Path) -> None:
    lost = tmp_path / "absent" / "report.html"
    result = CliRunner().invoke(app, [*FEW, "--url", "unix:/nowhere", "--html", str(lost), "--csv", str(tmp_path)])
    assert isinstance(result.exception, CliError), result.output
    assert result.exception.exit_code == 2
    for said in (f"--html is {lost}", f"--csv is {tmp_path}", "a folder that exists"):
        assert said in str(result.exception)


@pytest.mark.parametrize("option", ["--output", "--html", "--csv"])
def test_each_option_is_looked_at(tmp_path: Path, option: str) -> None:
    result = CliRunner().invoke(app, [*FEW, "--url", "unix:/nowhere", option, str(tmp_path / "absent" / "file")])
    assert option in str(result.exception)


async def test_what_was_kept_in_detail_is_drawn_later_as_it_would_have_been_at_once(tmp_path: Path) -> None:
    kept, page, later = tmp_path / "run.json", tmp_path / "run.html", tmp_path / "later.html"
    async with serving(tmp_path / "s", Script()) as url:
        files = ("--output", str(kept), "--save-detailed", "--html", str(page))
        await asyncio.to_thread(CliRunner().invoke, app, [*FEW, "--url", url, *files])
    result = CliRunner().invoke(app, ["bench", "report", str(kept), "--html", str(later)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert later.read_text("utf-8").replace('scope="col">run<', 'scope="col">listed-model<') == page.read_text(
        "utf-8"
    ).replace("<li>listed-model:", "<li>run:")
    assert "A: run" in result.stdout


def test_what_is_no_result_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}", "utf-8")
    result = CliRunner().invoke(app, ["bench", "report", str(tmp_path / "x.json")])
    assert isinstance(result.exception, CliError)
    assert "x.json is no result of a benchmark" in str(result.exception)
