"""What a run learns of the server from its metrics, and what it does not do to learn it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backends.base import Load
from backends.bench import BenchConfig, BenchError, Report, measure, watch
from backends.bench.watch import ServerLog
from tests.backends.bench.server import Script, serving


def vllm(running: int, waiting: int, kv: float, preemptions: int) -> str:
    return (
        f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:num_requests_waiting{{engine="0"}} {waiting}\n'
        f"vllm:kv_cache_usage_perc {kv}\nvllm:num_preemptions_total {preemptions}\n"
    )


async def run(tmp_path: Path, script: Script, **settings: Any) -> Report:
    async with serving(tmp_path / "s", script) as url:
        return await measure(BenchConfig(url=url, num_requests=4, output_tokens=4, **settings))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_PAUSE_S", 0.002)
    monkeypatch.setattr(watch, "_LEAST_PAUSE", 0)


@pytest.mark.usefixtures("often")
async def test_its_figures_are_those_of_the_run_by_vllms_names(tmp_path: Path) -> None:
    script = Script(gap_s=0.1, metrics=[vllm(0, 0, 0.0, 7), vllm(3, 1, 0.5, 7), vllm(2, 0, 0.25, 9)])
    report = await run(tmp_path, script, api_key="sk-x")
    told = report.to_dict(detailed=True)
    series = told["server_metrics"]
    assert series["num_requests_running"][:3] == [0, 3, 2]
    assert series["num_requests_waiting"][:3] == [0, 1, 0]
    assert series["kv_cache_usage_perc"][:3] == [0.0, 0.5, 0.25]
    assert series["num_preemptions"][:3] == [0, 0, 2], "counted from the first look on"
    assert "num_requests_preempted" not in series, "vLLM does not tell it"
    assert series["times"] == sorted(series["times"])
    assert series["times"][0] <= 0 < series["times"][-1]
    assert (told["max_num_requests_running"], told["max_num_requests_waiting"]) == (3, 1)
    assert (told["max_kv_cache_usage_perc"], told["num_preemptions"]) == (0.5, 2)
    assert told["server_metrics_absent"] is None
    assert "Most KV cache in use (%):                50.00" in report.to_text()
    assert script.looks[0]["authorization"] == "bearer sk-x"


async def test_a_server_without_metrics_is_asked_once_and_the_report_says_so(tmp_path: Path) -> None:
    script = Script(gap_s=0.01)
    report = await run(tmp_path, script)
    assert len(script.looks) == 1
    absent = "running, waiting, preempted and KV use are not known: http://localhost/metrics answered 404"
    assert report.to_dict()["server_metrics_absent"] == absent
    assert report.to_dict(detailed=True)["server_metrics"] is None
    assert f"Of the server, {absent}." in report.to_text()
    refused = await run(tmp_path, Script(metrics_status=403))
    assert "need another key or are elsewhere (--metrics-url)" in refused.to_text()


async def test_a_server_that_tells_nothing_of_its_cache_is_told_of_so(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(metrics=["sekisho_running 1\nsekisho_waiting 2\n"]))
    assert report.to_dict()["max_num_requests_waiting"] == 2
    assert "the KV cache's use is not known: http://localhost/metrics does not tell it" in report.to_text()


async def test_no_more_is_read_than_metrics_may_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MOST_BYTES", 1 << 16)
    report = await run(tmp_path, Script(metrics=["# endless\n" * 100_000 + vllm(1, 0, 0, 0)]))
    assert report.server.loads == ()


async def test_figures_of_nothing_known_are_none(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(metrics=["process_cpu_seconds_total 3\n"]))
    assert "holds no figures that are known here" in report.to_text()


@pytest.mark.usefixtures("often")
async def test_a_slow_look_is_followed_by_a_long_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LEAST_PAUSE", 10_000)
    script = Script(gap_s=0.15, metrics=[vllm(1, 0, 0, 0)], metrics_s=0.05)
    await run(tmp_path, script)
    assert len(script.looks) == 3, "the first, one after a pause, and the last"


@pytest.mark.usefixtures("often")
async def test_a_long_run_is_looked_at_more_seldom_and_its_log_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_MOST_LOOKS", 8)
    script = Script(gap_s=0.1, metrics=[vllm(1, 0, 0, 0)])
    report = await run(tmp_path, script)
    assert len(script.looks) > 8
    assert len(report.server.times) <= 9


async def test_no_key_goes_to_another_address(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = vllm(1, 0, 0, 0).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    report = await run(tmp_path, Script(), api_key="sk-x", metrics_url=f"http://127.0.0.1:{port}/figures")
    server.close()
    assert report.server.loads[0] == Load(running=1, waiting=0, kv_use=0.0, preemptions=0)
    assert asked[0].startswith(b"GET /figures ")
    assert b"sk-x" not in b"".join(asked)


async def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="metrics_url is 'localhost:9000': expected http:// or https://"):
        await run(tmp_path, Script(), metrics_url="localhost:9000")


def test_a_figure_that_is_missing_in_one_look_is_no_zero() -> None:
    log = ServerLog((10.0, 11.0), (Load(running=2, preemptions=5), Load(waiting=1)))
    assert log.series(10.0) == {
        "times": [0.0, 1.0],
        "num_requests_running": [2, None],
        "num_requests_waiting": [None, 1],
        "num_preemptions": [0, None],
    }
    assert ServerLog().series(0.0) == {}
