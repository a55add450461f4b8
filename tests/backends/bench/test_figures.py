"""What is drawn, as numbers."""

from __future__ import annotations

import pytest

from backends.bench.pages.figures import (
    cumulative,
    first_tokens_ms,
    gaps_ms,
    latencies_ms,
    later_tokens_ms,
    requests,
    server_series,
    speed_and_throughput,
    timeline,
)
from tests.backends.bench.results import answered, failed, result


def test_requests_are_told_from_the_first_send_in_the_order_sent() -> None:
    later, first = requests(result(answered(105.0, 106.0, 108.0), answered(100.0, 100.5)))[::-1]
    assert (first.start, first.ttft, first.latency) == (0.0, 0.5, 0.5)
    assert (later.start, later.ttft, later.latency) == (5.0, 1.0, 3.0)
    assert (later.input_tokens, later.output_tokens, later.error) == (7, 2, "")


def test_a_request_without_an_answer_has_no_times_whichever_tool_wrote_it() -> None:
    ours = result(answered(0, 1), failed(2, "503"))
    vllms = ours | {"ttfts": [1, 0.0], "start_times": [50.0, 52.0]}
    for one in (ours, vllms):
        last = requests(one)[-1]
        assert (last.start, last.ttft, last.latency, last.error) == (2.0, None, None, "503")


def test_a_result_without_details_has_no_requests() -> None:
    plain = {"output_throughput": 1.0}
    assert requests(plain) == timeline(plain) == gaps_ms(plain) == first_tokens_ms(plain) == []


def test_latencies_of_failed_requests_are_not_drawn() -> None:
    cut = answered(0, 5, 9)
    cut.error = "cut"
    made = result(cut, answered(0, 1, 1.5))
    assert first_tokens_ms(made) == [1000]
    assert gaps_ms(made) == [500]


def test_times_per_token_and_latencies_are_those_of_whole_answers() -> None:
    cut = answered(0, 5, 9)
    cut.error = "cut"
    made = result(cut, answered(0, 1, 1.5, 2.0), answered(0, 4), failed(1))
    assert later_tokens_ms(made) == [500], "of those with a second token"
    assert latencies_ms(made) == [2000, 4000]


def test_what_a_server_told_is_drawn_where_it_told_it() -> None:
    told = {"server_metrics": {"times": [0.0, 1.0, 2.0], "num_requests_running": [1, None, 3]}}
    assert server_series(told, "num_requests_running") == [(0.0, 1), (2.0, 3)]
    assert server_series(told, "kv_cache_usage_perc") == server_series({}, "num_requests_running") == []


def test_the_cumulative_share_rises_from_the_smallest_to_the_largest_value() -> None:
    assert cumulative([]) == []
    points = cumulative([float(value) for value in range(1001)][::-1])
    assert points[0] == (0, 0)
    assert points[-1] == (1000, 100)
    assert len(points) < 300, "as many points as values"
    for value, percent in points:
        assert value == pytest.approx(percent * 10)


def test_the_timeline_tells_who_waits_and_who_is_answered() -> None:
    moments = timeline(result(answered(0, 4, 8), answered(2, 4, 6), failed(1)))
    for at, running, answering in ((1.0, 1, 0), (3.0, 2, 0), (5.0, 2, 2), (7.0, 1, 1)):
        nearest = min(moments, key=lambda moment: abs(moment.at - at))
        assert (nearest.running, nearest.answering) == pytest.approx((running, answering))
    assert 0 < moments[0].at < moments[-1].at < 8


def test_the_timeline_keeps_what_is_shorter_than_its_parts() -> None:
    moments = timeline(result(*(answered(index, index + 0.001, index + 0.5) for index in range(1000))))
    assert sum(moment.running for moment in moments) / len(moments) == pytest.approx(0.5, abs=0.01)


def test_speed_is_one_persons_and_throughput_everybodys() -> None:
    made = result(answered(0, 1, 1.5, 2.0), answered(0, 1, 1.5, 2.0))
    assert speed_and_throughput(made) == pytest.approx((2.0, 3.0))
    assert speed_and_throughput(result(failed(0))) is None
