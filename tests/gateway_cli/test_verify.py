"""`sekisho bench sweep` and `sekisho verify` against a scripted server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app
from tests.backends.bench.server import Script, serving

SMALL = ("--quick", "--input-tokens", "30", "--output-tokens", "3")


async def invoke(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


async def swept(folder: Path, *arguments: str) -> tuple[Result, Any, Script]:
    script, made = Script(gap_s=0.001), folder / "sweep.json"
    async with serving(folder / "s", script) as url:
        result = await invoke("bench", "sweep", "--url", url, *SMALL, "--output", str(made), *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result, json.loads(made.read_text()), script


async def test_a_sweep_prints_each_point_and_writes_what_it_recommends(tmp_path: Path) -> None:
    result, made, script = await swept(tmp_path, "--target", "0.1", "--max-concurrency", "3", "--repeats", "2")
    assert (made["best_concurrency"], made["max_num_seqs"], made["bounded"]) == (3, 3, False)
    assert [point["concurrency"] for point in made["points"]] == [1, 2, 3]
    assert [run["num_prompts"] for run in made["runs"]] == [2, 2, 4, 4, 6, 6]  # twice each
    assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == ["1", "2", "3"]
    assert "Recommended: --max-num-seqs 3." in result.stdout
    assert script.peak_in_flight == 3
    prompts = [body["messages"][0]["content"] for body in script.bodies if body["max_tokens"] == 3]
    assert len(set(prompts)) == len(prompts)


async def test_a_target_that_nothing_meets_ends_a_sweep_after_one_point(tmp_path: Path) -> None:
    _, made, _ = await swept(tmp_path, "--target", "1e12")
    assert (made["best_concurrency"], made["max_num_seqs"], len(made["points"])) == (0, None, 1)


@pytest.mark.parametrize("command", [("bench", "sweep", "--url"), ("verify", "--ours")])
async def test_a_bad_setting_is_one_message(command: tuple[str, ...]) -> None:
    result = await invoke(*command, "ftp://x")
    assert isinstance(result.exception, CliError)
    assert "url is 'ftp://x'" in str(result.exception)


async def test_where_nothing_can_be_written_nothing_is_measured(tmp_path: Path) -> None:
    result = await invoke("verify", "--ours", "unix:/nothing", "--output", str(tmp_path / "no" / "verify.json"))
    assert isinstance(result.exception, CliError)
    assert "--output" in str(result.exception)


async def verified(folder: Path, script: Script, *arguments: str) -> tuple[Result, dict[int, Any], Any]:
    made = folder / "verify.json"
    async with serving(folder / "s", script) as url:
        small = ("--people", "2", "--limit", "3", "--target", "0.1", *SMALL)
        result = await invoke("verify", "--ours", url, *small, "--output", str(made), *arguments)
    written = json.loads(made.read_text())
    return result, {verdict["number"]: verdict for verdict in written["verdicts"]}, written["runs"]


async def test_six_verdicts_are_printed_and_written_and_the_sixth_needs_a_shape(tmp_path: Path) -> None:
    script = Script(gap_s=0.001)
    result, verdicts, runs = await verified(tmp_path, script)
    expected = {1: "holds", 2: "not run", 3: "holds", 4: "holds", 5: "holds", 6: "not run"}
    assert {number: verdict["state"] for number, verdict in verdicts.items()} == expected
    assert result.exit_code == 0
    assert "of 6 at once 6 were answered, 0 refused, 0 lost" in result.stdout
    assert script.peak_in_flight == 32
    assert [run["title"] for run in runs][-3:] == ["2 people", "6 at once", "one more"]


async def test_the_baseline_has_its_own_model_and_is_compared(tmp_path: Path) -> None:
    baseline = Script(gap_s=0.001)
    async with serving(tmp_path / "b", baseline) as url:
        options = ("--baseline", url, "--baseline-model", "theirs", "--model", "mine")
        _, verdicts, runs = await verified(tmp_path, Script(gap_s=0.001), *options)
    assert verdicts[2]["figures"]["ratio"] > 0
    assert {body["model"] for body in baseline.bodies} == {"theirs"}
    assert [(run["title"], run["model_id"]) for run in runs[1:3]] == [
        ("ours, turn 1", "mine"),
        ("baseline, turn 1", "theirs"),
    ]


async def test_a_bandwidth_and_a_shape_give_the_sixth_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.bench.sweep._QUEUED_SHARE", 0)  # how busy this machine is does not matter here
    script = Script(gap_s=0.001)
    slow = ("--shape", "smollm2-135m", "--bandwidth", "1")
    result, verdicts, _ = await verified(tmp_path, script, *slow)
    assert verdicts[6]["state"] == "fails"
    assert "over 100 % the bound itself is wrong" in verdicts[6]["said"]
    assert result.exit_code == 1
    assert f"-> {verdicts[6]['what_to_do']}" in result.stdout


async def test_a_server_that_refuses_everything_fails_the_first_only(tmp_path: Path) -> None:
    result, verdicts, _ = await verified(tmp_path, Script(status=401))
    assert [verdict["state"] for verdict in verdicts.values()] == ["fails", *["not run"] * 5]
    assert "401: no room" in verdicts[1]["said"]
    assert result.exit_code == 1


@pytest.mark.parametrize(("flag", "expected"), [("--shape", "qwen3-8b"), ("--weights", "Q4_1")])
async def test_an_unknown_name_is_refused_with_those_that_are_known(flag: str, expected: str) -> None:
    result = await invoke("verify", flag, "nonsense")
    assert isinstance(result.exception, CliError)
    assert f"{flag} is 'nonsense'" in str(result.exception)
    assert expected in str(result.exception)
