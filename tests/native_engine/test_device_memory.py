"""What a GPU has room for, by numbers that no GPU was asked for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from native_engine.config import EngineConfig
from native_engine.device_memory import Measured, cache_budget, num_device_blocks
from native_engine.loading.model_config import ModelConfig
from native_engine.sizing import ConfigurationError

GIB = 2**30
CONFIG = EngineConfig(model="m", max_num_seqs=256, max_num_batched_tokens=8192, gpu_memory_utilization=0.9)
MODEL = ModelConfig(
    "llama", 128000, 4096, 14336, 32, 32, 8, 128, 1e-5, 5e5, None, 131072, False, False, None, frozenset(), None, "8b"
)
PER_TOKEN = 2 * 32 * 8 * 128 * 2  # bytes, at two a number
CARD = Measured(total=24 * GIB, free=7 * GIB, weights=15 * GIB, working=GIB, graphs=GIB // 2)


def blocks(config: EngineConfig = CONFIG, longest: int = 8192, element: int = 2, measured: Measured = CARD) -> int:
    return num_device_blocks(config, MODEL, longest, element, measured)


def refusal(config: EngineConfig, longest: int, element: int = 2, measured: Measured = CARD) -> str:
    with pytest.raises(ConfigurationError) as fault:
        blocks(config, longest, element, measured)
    return str(fault.value)


def test_the_cache_gets_what_the_share_leaves_beside_weights_a_step_and_graphs() -> None:
    assert cache_budget(CARD, 0.9) == pytest.approx((24 * 0.9 - 15 - 1 - 0.5) * GIB)
    assert blocks() == int((24 * 0.9 - 16.5) * GIB) // (16 * PER_TOKEN)


def test_what_other_processes_hold_takes_nothing_from_the_share_while_it_is_free() -> None:
    assert cache_budget(replace(CARD, free=int(5.9 * GIB)), 0.9) == cache_budget(CARD, 0.9)
    assert cache_budget(replace(CARD, free=3 * GIB), 0.9) == 2.25 * GIB


def test_no_more_blocks_than_all_sequences_at_their_longest_can_use() -> None:
    assert blocks(replace(CONFIG, max_num_seqs=2), longest=100) == 2 * 7


def test_a_size_given_for_the_cache_is_taken_as_long_as_it_is_free() -> None:
    assert blocks(replace(CONFIG, kv_cache_memory=2 * GIB)) == 2 * GIB // (16 * PER_TOKEN)
    assert blocks(replace(CONFIG, kv_cache_memory=100 * GIB)) == int(6.25 * GIB) // (16 * PER_TOKEN)


def test_a_context_that_does_not_fit_is_refused_with_what_would_fit_each_way() -> None:
    said = refusal(CONFIG, 65536)
    assert "65536 tokens needs 8192 MiB" in said
    assert "weights take 15360, a step 1024 and CUDA graphs 512" in said
    (shorter,) = map(int, re.findall(r"--max-model-len (\d+)", said))
    assert blocks(longest=shorter) * 16 >= shorter
    refusal(CONFIG, shorter + 1)
    (tokens,) = map(int, re.findall(r"--kv-cache-dtype fp8, which holds (\d+) tokens", said))
    assert tokens // 16 == blocks(element=1, longest=tokens)


def test_fewer_sequences_and_tokens_are_named_where_they_would_be_enough() -> None:
    measured = replace(CARD, working=11 * GIB // 2)
    said = refusal(CONFIG, 8192, measured=measured)
    seqs, tokens = map(int, re.findall(r"--max-num-seqs (\d+) --max-num-batched-tokens (\d+)", said)[0])
    assert (seqs, tokens) == (128, 4096)
    halved = replace(measured, working=11 * GIB // 4, graphs=GIB // 4)
    assert blocks(replace(CONFIG, max_num_seqs=seqs, max_num_batched_tokens=tokens), measured=halved) * 16 >= 8192


def test_a_larger_share_is_named_where_it_would_be_enough_and_is_free() -> None:
    said = refusal(replace(CONFIG, gpu_memory_utilization=0.7), 8192)
    (share,) = map(
        float, re.findall(r"--gpu-memory-utilization (\d\.\d+)$|--gpu-memory-utilization (\d\.\d+); w", said)[-1][1:]
    )
    assert blocks(replace(CONFIG, gpu_memory_utilization=share)) * 16 >= 8192
    assert "--gpu-memory-utilization 0.7;" in said
    taken = refusal(replace(CONFIG, gpu_memory_utilization=0.7), 8192, measured=replace(CARD, free=GIB))
    assert taken.count("--gpu-memory-utilization") == 1


def test_where_the_weights_leave_nothing_no_length_is_named() -> None:
    said = refusal(CONFIG, 8192, measured=replace(CARD, weights=23 * GIB, free=GIB // 2))
    assert "leaves 0 MiB" in said
    assert "--max-model-len" not in said
    assert "fp8, which" not in said
    assert "--quantization fp8, int8 or int4" in said


def test_a_size_given_too_small_is_refused_with_the_size_that_would_do() -> None:
    config = replace(CONFIG, kv_cache_memory=GIB)
    said = refusal(config, 16384)
    assert "--kv-cache-memory gives 1024 MiB" in said
    assert "--kv-cache-memory 2048MiB" in said
    assert blocks(replace(config, kv_cache_memory=2 * GIB), longest=16384) * 16 >= 16384
