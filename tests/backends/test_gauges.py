"""Each engine's load from metrics that were recorded (cut to the lines that matter)."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.base import Load
from backends.gauges import load_of

RECORDED = Path(__file__).parent / "data" / "metrics"


@pytest.mark.parametrize(
    ("engine", "load"),
    [
        ("vllm", Load(4, 0, 0.011019283746556474, kv_blocks_total=364, kv_blocks_free=360, block_size=128)),
        ("sglang", Load(0, 0, 0.0, kv_blocks_total=16384, kv_blocks_free=16384, block_size=1)),
        ("llamacpp", Load(2, 2)),
    ],
)
def test_recorded_metrics_tell_the_load(engine: str, load: Load) -> None:
    assert load_of((RECORDED / f"{engine}.txt").read_bytes()) == load


def test_the_older_name_of_vllms_cache_use_is_understood() -> None:
    text = (RECORDED / "vllm.txt").read_text().replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    assert load_of(text.encode()).kv_blocks_free == 360


def test_replicas_behind_one_port_add_up_and_their_cache_use_is_the_mean() -> None:
    first = (RECORDED / "vllm.txt").read_text()
    second = first.replace('engine="0"', 'engine="1"').replace("0.011019283746556474", "0.5")
    load = load_of((first + second).encode())
    assert (load.running, load.kv_blocks_total) == (8, 728)
    assert load.kv_use == pytest.approx(0.2555, abs=1e-4)


def test_what_is_told_for_each_priority_is_not_added_to_the_whole() -> None:
    whole = 'sglang:num_running_reqs{engine_type="unified",priority="",tp_rank="0"} 3.0\n'
    parts = whole.replace('""', '"1"') + whole.replace('""', '"-9223372036854775808"')
    assert load_of((whole + parts).encode()).running == 3


@pytest.mark.parametrize("text", [b"", b"<html>not found</html>", b"\xff\xfe", b"vllm:x nonsense", b"# only a comment"])
def test_metrics_of_nothing_known_tell_nothing(text: bytes) -> None:
    assert load_of(text) == Load()


def test_preemptions_are_told_by_each_engines_name_for_them() -> None:
    native = b"sekisho_engine_num_requests_running 1\nsekisho_engine_num_requests_waiting 3\n"
    native += b"sekisho_engine_num_requests_preempted 2\nsekisho_engine_num_preemptions_total 5\n"
    assert load_of(native) == Load(running=1, waiting=3, preempted=2, preemptions=5)
    assert load_of(b"vllm:num_requests_running 1\nvllm:num_preemptions_total 5.0\n").preemptions == 5
    assert load_of(b"sglang:num_running_reqs 1\nsglang:num_retracted_requests_total 5\n").preemptions == 5


def test_a_gateway_and_an_older_llamacpp_are_understood() -> None:
    assert load_of(b"sekisho_running 3\nsekisho_waiting 4\n") == Load(running=3, waiting=4)
    old = b"llamacpp:requests_processing 1\nllamacpp:kv_cache_usage_ratio 0.25\n"
    assert load_of(old) == Load(running=1, kv_use=0.25)


def test_what_is_no_number_now_is_not_told() -> None:
    assert load_of(b"vllm:num_requests_running 3\nvllm:num_requests_waiting NaN\n") == Load(running=3)
    assert load_of(b"vllm:num_requests_running +Inf\n") == Load()


def test_an_engine_that_tells_only_half_is_not_guessed_at() -> None:
    load = load_of(b"vllm:num_requests_running 3.0\n")
    assert load == Load(running=3)
    assert load_of(b"sglang:num_running_reqs 2\nsglang:kv_available_tokens 5\n") == Load(running=2, block_size=1)


def test_the_tokens_that_a_cache_holds() -> None:
    assert Load(kv_blocks_total=10, block_size=16).kv_tokens == 160
    assert Load(kv_blocks_total=10).kv_tokens is None
