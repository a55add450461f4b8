"""`sekisho bench sweep` and `sekisho verify` against a scripted server."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backends import bench
from backends.bench import BenchConfig, Report, run_bench
from backends.bench.runner import OnProgress
from gateway.cli import datadir
from gateway.cli.console import CliError
from gateway.cli.main import app
from gateway.cli.targets import targets_of
from tests.backends.bench.server import Script, serving

SMALL = ("--quick", "--input-tokens", "30", "--output-tokens", "3", "--repeats", "1")


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
    assert "Recommended: --max-num-seqs 3 (`sekisho up --max-num-seqs 3`" in result.stdout
    assert script.peak_in_flight == 3
    prompts = [body["messages"][0]["content"] for body in script.bodies if body["max_tokens"] == 3]
    assert len(set(prompts)) == len(prompts)


async def test_a_sweep_tells_where_the_load_generator_was_the_bottleneck_and_draws_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.bench.strain.CPU_LIMIT", 0.0)
    page = tmp_path / "sweep.html"
    result, made, _ = await swept(tmp_path, "--max-concurrency", "1", "--html", str(page))
    assert [doubt.split(":")[0] for doubt in made["doubts"]] == ["The load generator was a bottleneck at 1 at once"]
    assert made["doubts"][0] in result.stdout
    assert made["advice"].split("`")[0] in page.read_text()


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
        small = ("--people", "2", "--limit", "3", "--target", "0.1", "--bandwidth", "1e12", *SMALL)
        result = await invoke("verify", "--ours", url, *small, "--output", str(made), *arguments)
    assert made.exists(), (result.output, result.exception)
    [server] = json.loads(made.read_text())["servers"]
    return result, {verdict["number"]: verdict for verdict in server["verdicts"]}, server["runs"]


async def test_six_verdicts_are_printed_and_written_and_the_sixth_needs_a_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.bench.strain.CPU_LIMIT", 0.0)
    script = Script(gap_s=0.001)
    result, verdicts, runs = await verified(tmp_path, script)
    expected = {1: "holds", 2: "not run", 3: "holds", 4: "holds", 5: "holds", 6: "not run"}
    assert {number: verdict["state"] for number, verdict in verdicts.items()} == expected
    assert result.exit_code == 0
    assert "of 6 at once 6 were answered, 0 refused, 0 lost" in result.stdout
    assert re.search(r"memory \d+ MiB before", result.stdout)  # this process serves
    assert "the load generator was a bottleneck, one request: it computed" in result.stdout
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


async def test_a_bandwidth_and_a_shape_give_the_sixth_its_bound(tmp_path: Path) -> None:
    script = Script(gap_s=0.001)
    slow = ("--shape", "smollm2-135m", "--bandwidth", "1", "--html", str(tmp_path / "verify.html"))
    result, verdicts, _ = await verified(tmp_path, script, *slow)
    assert verdicts[6]["state"] == "fails"
    assert "Over 100 % the bound itself is wrong: the time of one request alone at 1" in verdicts[6]["said"]
    assert result.exit_code == 1
    assert f"-> {verdicts[6]['what_to_do']}" in result.stdout
    assert "six hypotheses" in (tmp_path / "verify.html").read_text().lower()


async def test_a_server_that_refuses_everything_fails_the_first_only(tmp_path: Path) -> None:
    result, verdicts, _ = await verified(tmp_path, Script(status=401))
    assert [verdict["state"] for verdict in verdicts.values()] == ["fails", *["not run"] * 5]
    assert "401: no room" in verdicts[1]["said"]
    assert result.exit_code == 1


async def test_each_of_ours_is_tested_and_told_beside_the_others(tmp_path: Path) -> None:
    made, page = tmp_path / "verify.json", tmp_path / "verify.html"
    first, second = Script(gap_s=0.001), Script(status=401)
    async with serving(tmp_path / "1", first) as one, serving(tmp_path / "2", second) as two:
        arguments = ("verify", "--ours", one, "--ours", two, "--api-key", "mine", "--people", "1", "--limit", "1")
        result = await invoke(
            *arguments, "--target", "0.1", "--bandwidth", "1e12", *SMALL, "--output", str(made), "--html", str(page)
        )
    servers = json.loads(made.read_text())["servers"]
    assert [server["url"] for server in servers] == [one, two]
    assert [server["verdicts"][0]["state"] for server in servers] == ["holds", "fails"]
    assert result.exit_code == 1
    assert {headers.get("authorization") for headers in first.headers} == {"bearer mine"}
    assert not any("authorization" in headers for headers in second.headers)  # a key is one server's alone
    assert "Side by side" in page.read_text()


async def test_who_interrupts_keeps_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[BenchConfig] = []

    def interrupted(config: BenchConfig, on_progress: OnProgress | None) -> Report:
        measured.append(config)
        if len(measured) > 1:
            raise KeyboardInterrupt
        return run_bench(config, on_progress)

    monkeypatch.setattr(bench, "run_bench", interrupted)
    _, verdicts, runs = await verified(tmp_path, Script(), "--html", str(tmp_path / "verify.html"))
    assert [verdict["state"] for verdict in verdicts.values()] == ["holds", "not run"]  # without a baseline
    assert [run["title"] for run in runs] == ["one request"]
    assert "Six hypotheses" in (tmp_path / "verify.html").read_text()


async def test_what_the_engine_says_of_itself_is_told_with_the_fifth(tmp_path: Path) -> None:
    metrics = "sekisho_engine_num_requests_running 3\nsekisho_engine_num_requests_waiting {}\n"
    engine = Script(metrics=[metrics.format(0), metrics.format(7)])
    async with serving(tmp_path / "e", engine) as url:
        result, verdicts, _ = await verified(tmp_path, Script(gap_s=0.001), "--engine", url)
    assert verdicts[5]["figures"]["most_waiting"] == 7
    assert "running at the most 3, waiting at the most 7, KV cache not seen" in result.stdout


async def test_of_an_engine_elsewhere_no_memory_is_seen(tmp_path: Path) -> None:
    _, verdicts, _ = await verified(tmp_path, Script(), "--engine", "http://192.0.2.1:1")
    assert "memory not seen (the engine is on another machine)" in verdicts[5]["said"]


async def test_a_machine_of_the_list_gives_the_bound_its_figures(tmp_path: Path) -> None:
    known = ("--shape", "qwen3-8b", "--hardware", "h100")
    _, verdicts, _ = await verified(tmp_path, Script(gap_s=0.001), *known)
    assert "Computed for qwen3-8b in BF16, 1000.0 GB/s and 989000 GFLOP/s" in verdicts[6]["said"]


@pytest.mark.parametrize("flag", ["--model", "--engine", "--limit", "--api-key"])
async def test_a_value_for_none_of_ours_is_refused(flag: str) -> None:
    result = await invoke("verify", "--ours", "unix:/a", *(word for _ in range(2) for word in (flag, "3")))
    assert isinstance(result.exception, CliError)
    assert f"{flag} is given 2 times" in str(result.exception)


def test_the_engine_of_up_is_found_behind_its_door(tmp_path: Path) -> None:
    folder = datadir.make_socket_dir(datadir.prepare(tmp_path / "data"))
    (tmp_path / "data" / "address").write_text("http://127.0.0.1:9")
    (folder / "engine.sock").touch()

    def engines(*urls: str) -> list[str]:
        none: dict[str, list[Any]] = {"models": [], "api_keys": [], "engines": [], "limits": []}
        return [one.engine for one in targets_of(urls, **none, default_limit=1, data_dir=tmp_path / "data")]

    assert engines("http://127.0.0.1:9/v1", "http://127.0.0.1:8") == [
        f"unix:{folder}/engine.sock",
        "http://127.0.0.1:8",
    ]


@pytest.mark.parametrize(("flag", "expected"), [("--shape", "qwen3-8b"), ("--weights", "Q4_1"), ("--hardware", "h100")])
async def test_an_unknown_name_is_refused_with_those_that_are_known(flag: str, expected: str) -> None:
    result = await invoke("verify", flag, "nonsense")
    assert isinstance(result.exception, CliError)
    assert f"{flag} is 'nonsense'" in str(result.exception)
    assert expected in str(result.exception)
