"""The measurement of the whole engine, on one that computes nothing: each of its steps takes a stand-in second."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends.capacity import SHAPES
from native_engine.batch import ScheduledBatch
from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.engine_bench import (
    DecodeTime,
    decode_limit,
    fitting,
    prefill_limit,
    time_decodes,
    time_prefill,
)
from native_engine.host_tier import Copy


class Runner:
    """Counts what it is asked to compute; every step takes a second, and half a second more for each sequence."""

    num_blocks, num_host_blocks, max_model_len, window = 400, 0, 2048, None

    def __init__(self) -> None:
        self.now = 0.0
        self.batches: list[int] = []

    def copy(self, copies: list[Copy]) -> None: ...

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.now += 1 + len(batch.items) / 2
        self.batches.append(len(batch.items))
        return [[7] for item in batch.items if item.samples]


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def engine(runner: Runner) -> Engine:
    return Engine.create(runner, EngineConfig(model="any", max_num_seqs=4, max_num_batched_tokens=64))


def test_a_prompt_is_timed_from_its_arrival_to_its_first_token(engine: Engine, runner: Runner) -> None:
    assert time_prefill(engine, 64, 100, clock=lambda: runner.now) == 1.5
    assert time_prefill(engine, 65, 100, clock=lambda: runner.now) == 3.0
    assert not engine.scheduler.live


def test_each_batch_is_timed_in_steps_of_nothing_but_its_decodes(engine: Engine, runner: Runner) -> None:
    def busy(call: Callable[[], None]) -> float:
        before = runner.now
        call()
        return (runner.now - before) / 4

    times = list(time_decodes(engine, [1, 4, 2], 32, 100, busy, 10, clock=lambda: runner.now))
    assert times == [DecodeTime(4, 3.0, 0.75), DecodeTime(2, 2.0, 0.5), DecodeTime(1, 1.5, 0.375)]
    assert runner.batches[-20:] == [1] * 20
    assert not engine.scheduler.live
    assert engine.stats().preemptions_total == 0


def test_batches_whose_contexts_do_not_fit_are_left_out(engine: Engine) -> None:
    assert fitting(engine, [1, 2, 4], 1024, 10) == [1, 2, 4]
    assert fitting(engine, [1, 2, 4], 3000, 10) == [1]


def test_a_decode_is_limited_by_weights_and_context() -> None:
    shape = SHAPES["qwen3-8b"]
    alone, many = (decode_limit(shape, "bf16", batch, 1024, 4e12) for batch in (1, 256))
    assert alone == pytest.approx((2 * 7.57e9 + 1024 * 147456) / 4e12, rel=0.01)
    assert many - alone == pytest.approx(255 * 1024 * 147456 / 4e12)
    assert decode_limit(shape, "int4", 1, 0, 1.0) < decode_limit(shape, "fp8", 1, 0, 1.0) < alone * 4e12


def test_a_prompt_is_limited_by_its_multiplications() -> None:
    assert prefill_limit(SHAPES["qwen3-8b"], 2048, 1e15) == pytest.approx(2 * 6.95e9 * 2048 / 1e15, rel=0.01)
