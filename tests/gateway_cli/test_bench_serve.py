"""`sekisho bench serve` against scripted servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app
from tests.backends.bench.server import Script, serving

SMALL = ("--input-tokens", "40", "--output-tokens", "3", "--num-requests", "4")


async def invoke(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, ["bench", "serve", *arguments])


@pytest.mark.parametrize(
    "flags",
    [
        ("--dataset-name", "sharegpt-like", "--seed", "3"),
        ("--dataset-name", "multi-turn", "--num-turns", "2", "--concurrency", "1"),
        ("--dataset-name", "rag", "--shared-prefix-tokens", "9", "--document-tokens", "9", "--num-prefixes", "1"),
        ("--burst-size", "2", "--request-rate", "200", "--burstiness", "2"),
        ("--ramp-up-strategy", "linear", "--ramp-up-start-rps", "100", "--ramp-up-end-rps", "200"),
    ],
    ids=lambda flags: flags[0] + flags[1],
)
async def test_each_dataset_and_arrival_measures(tmp_path: Path, flags: tuple[str, ...]) -> None:
    made = tmp_path / "figures.json"
    async with serving(tmp_path / "s", Script()) as url:
        result = await invoke("--url", url, *SMALL, *flags, "--output", str(made))
    assert result.exit_code == 0, (result.output, result.exception)
    figures = json.loads(made.read_text())
    assert (figures["completed"], figures["failed"]) == (4, 0)
    assert "client_cpu_share" in figures


async def test_a_log_is_replayed_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt": "one", "timestamp": 1}\n{"prompt": "two", "timestamp": 2}\n', "utf-8")
    script = Script()
    async with serving(tmp_path / "s", script) as url:
        flags = ("--dataset-name", "custom", "--dataset-path", str(log), "--replay-speed", "100")
        result = await invoke("--url", url, *SMALL, *flags)
    assert result.exit_code == 0, (result.output, result.exception)
    assert [body["messages"][0]["content"] for body in script.bodies[-2:]] == ["one", "two"]
    assert "Speed of the log's replay:               100.00" in result.stdout


async def test_a_baseline_is_measured_in_turn_with_a_model_and_a_key_of_its_own(tmp_path: Path) -> None:
    ours, theirs, made, page = Script(), Script(), tmp_path / "figures.json", tmp_path / "page.html"
    async with serving(tmp_path / "a", ours) as a, serving(tmp_path / "b", theirs) as b:
        both = ("--url", a, "--api-key", "sk-a", "--baseline", b, "--baseline-model", "tiny", "--rounds", "2")
        result = await invoke(*both, *SMALL, "--output", str(made), "--html", str(page))
    assert result.exit_code == 0, (result.output, result.exception)
    figures = json.loads(made.read_text())
    assert [(run["round"], run["model_id"]) for run in figures["runs"]] == [
        (1, "listed-model"),
        (1, "tiny"),
        (2, "listed-model"),
        (2, "tiny"),
    ]
    assert f"A: {a}" in result.stdout
    assert "A / B" in result.stdout
    assert f"B2 {b}" in page.read_text("utf-8")
    assert {headers["authorization"] for headers in ours.headers} == {"bearer sk-a"}
    assert not any("authorization" in headers for headers in theirs.headers)


async def test_a_baseline_that_is_away_ends_the_comparison_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "figures.json"
    async with serving(tmp_path / "s", Script()) as url:
        result = await invoke("--url", url, "--baseline", f"unix:{tmp_path}/away", *SMALL, "--output", str(made))
    assert isinstance(result.exception, CliError)
    assert "ended before its time" in str(result.exception)
    assert f"It ended in round 1 of 2, at unix:{tmp_path}/away: no server answers" in result.stdout
    assert [run["target"] for run in json.loads(made.read_text())["runs"]] == [url]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--baseline", "ftp://x"), "url is 'ftp://x'"),
        (("--baseline-model", "m"), "--baseline-model is given 1 times: expected once for each --baseline"),
        (("--dataset-name", "poems"), "dataset_name is 'poems'"),
        (("--dataset-name", "custom", "--dataset-path", "nowhere.jsonl"), "dataset_path is 'nowhere.jsonl'"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
async def test_a_bad_setting_is_one_message(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    async with serving(tmp_path / "s", Script()) as url:
        result = await invoke("--url", url, *flags)
    assert isinstance(result.exception, CliError)
    assert says in str(result.exception)
