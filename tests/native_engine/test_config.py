from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from native_engine.config import EngineConfig, parse_duration, parse_size, validate


def test_the_defaults_have_no_fault() -> None:
    assert validate(EngineConfig(model="smollm2-135m")) == []


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("model", "", "a model name"),
        ("max_model_len", 1, "at least 2"),
        ("max_num_seqs", 0, "at least 1"),
        ("target_tpot", 0.0, "a positive time, such as 50ms"),
        ("target_tpot", float("nan"), "a positive time"),
        ("max_num_batched_tokens", 63, "at least max_num_seqs (64)"),
        ("gpu_memory_utilization", 0.0, "above 0 and at most 1"),
        ("gpu_memory_utilization", 1.5, "above 0 and at most 1"),
        ("gpu_memory_utilization", float("nan"), "above 0 and at most 1"),
        ("kv_cache_memory", 0, "a positive number of bytes"),
        ("block_size", 32, "16"),
        ("kv_cache_dtype", "int3", "one of auto, float32"),
        ("quantization", "awq", "one of auto, none"),
        ("dtype", "half", "one of auto"),
        ("seed", 2**64, "64 bits"),
        ("num_threads", 0, "at least 1"),
        ("tensor_parallel_size", 0, "at least 1"),
    ],
)
def test_a_fault_names_flag_value_and_what_was_expected(field: str, value: Any, expected: str) -> None:
    (fault,) = validate(EngineConfig(**{"model": "m", field: value}))
    assert fault.startswith(f"--{field.replace('_', '-')} is {value!r}; expected ")
    assert expected in fault


def test_all_faults_come_at_once() -> None:
    faults = validate(EngineConfig(model="", max_num_seqs=0, block_size=8, dtype="x", num_threads=-1))
    assert len(faults) == 5


def test_a_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        EngineConfig(model="m").max_num_seqs = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1073741824", 2**30),
        ("4GiB", 4 * 2**30),
        ("4gib", 4 * 2**30),
        (" 512 MB ", 512 * 10**6),
        ("1.5G", 1_500_000_000),
        ("2Ki", 2048),
        ("10B", 10),
    ],
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "4 giga", "1e9", "4GiBs"])
def test_what_is_not_a_size_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("50ms", 0.05), ("0.05s", 0.05), (" 7.5 ms ", 0.0075), ("2s", 2.0)])
def test_durations_are_read_with_their_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "50", "ms", "-1ms", "5us", "50msec"])
def test_what_is_not_a_duration_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_scheduler_and_engine_load_without_torch() -> None:
    code = "import sys, native_engine, native_engine.engine; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
