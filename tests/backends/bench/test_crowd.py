"""What became of twice the limit, judged on reports and on what was seen of the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.base import Load
from backends.bench.client import Sample
from backends.bench.config import BenchConfig
from backends.bench.crowd import survives
from backends.bench.hypotheses import Verdict
from backends.bench.report import Report, make_report
from backends.bench.watch import ServerLog
from backends.bench.witness import Memory, Witness
from tests.backends.bench.reports import report

CONNECTION = "ServerDisconnectedError: Server disconnected"
FULL = "429: The queue is full. Try again in 3 s."


def seen(*loads: Load) -> ServerLog:
    return ServerLog(tuple(map(float, range(len(loads)))), loads)


def judged(crowd: Report, after: Report | None = None, limit: int = 16, engine: Witness | None = None) -> Verdict:
    return survives(crowd, after or report(), limit, engine or Witness(ServerLog(absent="no metrics")))


def test_it_holds_where_all_are_answered_or_refused_and_the_engine_lives() -> None:
    assert judged(report(64), limit=32).state == "holds"
    refused = judged(report(30, rounds=1, errors=(FULL, "503 in the stream: draining")))
    assert refused.state == "holds"
    assert "30 were answered, 2 refused (0 with Retry-After), 0 lost" in refused.said


def test_refusals_that_tell_when_to_come_back_are_counted() -> None:
    samples = [*report(2, rounds=1).samples, Sample(error=FULL, retry_after="3"), Sample(error=FULL)]
    verdict = judged(make_report(BenchConfig(), "m", "d", samples), limit=2)
    assert "2 refused (1 with Retry-After)" in verdict.said
    assert verdict.figures["refused_with_retry_after"] == 1


@pytest.mark.parametrize("error", [CONNECTION, "500: out of memory", "400: bad", "TimeoutError", "4290: no such"])
def test_it_fails_where_one_is_lost(error: str) -> None:
    verdict = judged(report(31, rounds=1, errors=(error,)))
    assert verdict.state == "fails"
    assert f"1 lost, and it answers afterwards: {error}" in verdict.said
    assert "--kv-cache-memory" in verdict.what_to_do


def test_it_fails_where_the_engine_is_gone_or_was_started_anew_or_answered_nobody() -> None:
    assert survives(report(32), None, 16, Witness()).state == "fails"
    assert judged(report(32), report(errors=(CONNECTION,))).state == "fails"
    assert judged(report(rounds=0, errors=(FULL,) * 32)).state == "fails"
    anew = judged(report(32), engine=Witness(ended=True))
    assert (anew.state, "its process ended" in anew.said) == ("fails", True)


def test_queue_cache_preemptions_and_memory_are_told_where_they_were_seen() -> None:
    log = seen(Load(running=3, waiting=0, preemptions=5), Load(running=16, waiting=9, kv_use=0.415, preemptions=7))
    memory = Memory(800 << 20, 930 << 20, 920 << 20, absent="")
    verdict = judged(report(32), engine=Witness(log, memory))
    assert verdict.state == "holds"
    assert "running at the most 16, waiting at the most 9, KV cache up to 41.5%, preemptions 2" in verdict.said
    assert "memory 800 MiB before, 930 at the most, 920 afterwards" in verdict.said
    assert (verdict.figures["most_waiting"], verdict.figures["memory_most"]) == (9, 930 << 20)


def test_what_was_not_seen_is_told_with_its_reason() -> None:
    verdict = judged(report(32), engine=Witness(ServerLog(absent="it answered 401"), Memory(absent="it is elsewhere")))
    assert verdict.state == "holds"
    assert "waiting at the most not seen, KV cache not seen, preemptions not seen" in verdict.said
    assert "preemptions not seen (it answered 401); memory not seen (it is elsewhere)." in verdict.said
    assert verdict.figures["most_waiting"] is None


def test_of_an_engine_that_is_asked_itself_the_run_has_the_figures() -> None:
    crowd = replace(report(32), server=seen(Load(running=16, waiting=11)))
    assert "running at the most 16, waiting at the most 11" in judged(crowd, engine=Witness()).said


def test_who_waits_at_the_door_is_seen_too() -> None:
    door = replace(report(32), server=seen(Load(running=16, waiting=16)))
    assert "waiting at the most 16" in judged(door, engine=Witness(seen(Load(running=16, waiting=0)))).said


def test_an_engine_that_takes_all_of_them_at_once_shows_nothing() -> None:
    verdict = judged(report(32), engine=Witness(seen(Load(running=32, waiting=0))))
    assert verdict.state == "not run"
    assert "16 is not its limit" in verdict.said
    assert (
        judged(report(32), engine=Witness(seen(Load(running=20, waiting=0), Load(running=20, waiting=1)))).state
        == "holds"
    )
