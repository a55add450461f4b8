"""Whole runs against a scripted server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from backends.bench import BenchConfig, BenchError, Progress, Report, measure, run_bench
from tests.backends.bench.server import Script, serving


async def run(tmp_path: Path, script: Script, **settings: Any) -> Report:
    async with serving(tmp_path / "s", script) as url:
        return await measure(BenchConfig(url=url, **{"num_requests": 6, "output_tokens": 5, **settings}))


async def test_times_are_measured_from_the_send(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(first_token_s=0.1, gap_s=0.02), concurrency=2)
    assert (report.completed, report.failed) == (6, 0)
    assert 100 <= report.spreads["ttft"].median < 150
    assert 20 <= report.spreads["tpot"].median < 35
    assert 20 <= report.spreads["itl"].median < 35
    assert 180 <= report.spreads["e2el"].median < 300
    assert 0.54 <= report.duration < 1.0
    assert report.peak_concurrency == 2


async def test_waiting_for_a_place_is_measured_and_is_no_part_of_other_figures(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(first_token_s=0.05), concurrency=1, num_requests=3)
    first, second, third = sorted(report.to_dict(detailed=True)["queue_times"])
    assert first < 0.05 <= second <= third - 0.05
    assert report.spreads["e2el"].median < report.spreads["client_queue_time"].p95


async def test_the_first_token_is_text_and_not_the_roles_chunk(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(role_first_s=0.0, first_token_s=0.1), concurrency=6)
    assert report.spreads["ttft"].median >= 100


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_prompts_have_about_the_wanted_length_by_the_servers_count(tmp_path: Path, endpoint: str) -> None:
    report = await run(tmp_path, Script(), endpoint=endpoint, input_tokens=128)
    assert abs(report.total_input_tokens / report.completed - 128) <= 2
    assert report.total_output_tokens == 30


async def test_requests_ask_for_exactly_the_output_length(tmp_path: Path) -> None:
    script = Script()
    await run(tmp_path, script, api_key="sk-x", num_warmups=2)
    sent = script.bodies[-1]
    assert sent["model"] == "listed-model"
    assert (sent["max_tokens"], sent["ignore_eos"], sent["temperature"]) == (5, True, 0)
    assert sent["stream_options"] == {"include_usage": True}
    assert script.headers[-1]["authorization"] == "bearer sk-x"
    assert len(script.bodies) == 6 + 2 + 2  # the run, the warm-ups, two to fit the prompt length


async def test_a_service_without_ignore_eos_is_not_sent_it(tmp_path: Path) -> None:
    script = Script()
    await run(tmp_path, script, ignore_eos=False)
    assert "ignore_eos" not in script.bodies[-1]


async def test_a_shared_prefix_is_shared_and_the_rest_is_not(tmp_path: Path) -> None:
    script = Script()
    await run(tmp_path, script, input_tokens=120, shared_prefix_tokens=50, num_warmups=0)
    prompts = [body["messages"][0]["content"].split() for body in script.bodies[2:]]
    assert all(words[:40] == prompts[0][:40] for words in prompts)
    assert len({tuple(words[40:]) for words in prompts}) == len(prompts)


async def test_concurrency_is_never_exceeded(tmp_path: Path) -> None:
    script = Script(first_token_s=0.01)
    report = await run(tmp_path, script, concurrency=3, num_requests=12)
    assert script.peak_in_flight == 3
    assert report.peak_concurrency == 3


async def test_the_arrival_rate_sets_the_pace(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(), request_rate=20, num_requests=10)
    sent = [sample.sent for sample in report.samples]
    assert sent[-1] - min(sent) <= 0.6
    assert report.duration >= 0.2


@pytest.mark.parametrize("late", [False, True], ids=["at once", "when we send"])
async def test_servers_that_close_kept_alive_connections_cost_no_request(tmp_path: Path, late: bool) -> None:
    script = Script(requests_per_connection=2, closes_on_the_next=late)
    report = await run(tmp_path, script, concurrency=2, num_requests=20)
    assert (report.completed, report.errors) == (20, {})


async def test_a_cut_stream_is_a_failure_and_says_so(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(cut_after=3), model="m")
    assert (report.completed, report.failed) == (0, 6)
    assert "cut" in next(iter(report.errors))
    assert "6 x the stream was cut" in report.to_text()


async def test_an_error_event_in_a_stream_is_a_failure(tmp_path: Path) -> None:
    script = Script()
    async with serving(tmp_path / "s", script) as url:

        def fail_from_now_on(_: Progress) -> None:
            script.error_event = True

        report = await measure(BenchConfig(url=url, num_requests=3, output_tokens=5), fail_from_now_on)
    assert report.errors == {"503 in the stream: The request queue is full.": 3}


async def test_without_usage_pieces_of_text_are_counted_and_the_report_says_so(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(sends_usage=False))
    assert report.total_output_tokens == 30
    assert not report.counted_by_server
    assert "sent no usage" in report.to_text()


async def test_goodput_counts_requests_within_every_limit(tmp_path: Path) -> None:
    slow = await run(tmp_path, Script(first_token_s=0.05), goodput={"ttft": 20, "tpot": 1000})
    assert slow.request_goodput == 0
    quick = await run(tmp_path, Script(), goodput={"ttft": 2000, "tpot": 1000})
    assert quick.request_goodput == quick.request_throughput > 0
    assert quick.good_share == 1


@pytest.mark.parametrize(
    ("script", "says"),
    [(Script(status=401), "401: no room"), (Script(error_event=True), "queue is full"), (Script(cut_after=0), "cut")],
)
async def test_a_server_that_refuses_the_first_request_ends_the_run(tmp_path: Path, script: Script, says: str) -> None:
    with pytest.raises(BenchError, match=says):
        await run(tmp_path, script)


def test_no_server_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no server answers"):
        run_bench(BenchConfig(url=f"unix:{tmp_path}/nothing"))


def test_all_faults_of_a_configuration_are_told_at_once() -> None:
    with pytest.raises(BenchError, match=r"url is 'ftp://x'.*num_requests is 0.*burstiness is 0"):
        run_bench(BenchConfig(url="ftp://x", num_requests=0, burstiness=0))


async def test_progress_is_told_as_requests_start_and_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with serving(tmp_path / "s", Script()) as url:
        config = BenchConfig(url=url, num_requests=3, output_tokens=2, concurrency=1)
        await measure(config, lambda now: seen.append((now.running, now.done)))
    assert seen == [(1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]


async def test_cancelling_a_run_leaves_no_request_behind(tmp_path: Path) -> None:
    script = Script(gap_s=10)
    async with serving(tmp_path / "s", script) as url:
        all_running = asyncio.Event()
        config = BenchConfig(url=url, num_requests=3, num_warmups=0)
        task = asyncio.create_task(measure(config, lambda now: all_running.set() if now.running == 3 else None))
        await all_running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_json_form_has_vllms_names(tmp_path: Path) -> None:
    report = await run(tmp_path, Script())
    made = json.loads(json.dumps(report.to_dict(detailed=True)))
    for name in ("duration", "completed", "request_throughput", "output_throughput", "mean_ttft_ms", "p99_itl_ms"):
        assert name in made
    assert len(made["ttfts"]) == len(made["itls"]) == 6
    assert "ttfts" not in report.to_dict()


async def test_the_table_has_vllms_layout(tmp_path: Path) -> None:
    report = await run(tmp_path, Script(), concurrency=2, goodput={"ttft": 1000})
    lines = report.to_text().splitlines()
    assert lines[0] == "============ Serving Benchmark Result ============"
    assert lines[1] == "Successful requests:                     6         "
    assert "---------------Time to First Token----------------" in lines
    assert "-----Time per Output Token (excl. 1st token)------" in lines
    assert any(line.startswith("P95 E2EL (ms):") for line in lines)
    assert max(map(len, lines[: lines.index("=" * 50)])) <= 51
