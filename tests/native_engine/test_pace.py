from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.pace import Pace
from native_engine.scheduler import LEAST_PREFILL
from tests.native_engine.fake_runner import FakeRunner, make_scheduler, make_sequence


def test_nothing_is_known_at_first() -> None:
    assert Pace(0.05).limit is None


def test_two_sizes_give_the_line() -> None:
    pace = Pace(0.05)
    pace.observe(1, 0.011, has_prefill=False)
    pace.observe(101, 0.111, has_prefill=True)
    assert pace.limit == pytest.approx(40, abs=1)


def test_one_size_alone_counts_as_proportional() -> None:
    pace = Pace(0.05)
    for _ in range(5):
        pace.observe(100, 0.1, has_prefill=True)
    assert pace.limit == pytest.approx(50, abs=1)


def test_a_larger_step_that_was_quicker_does_not_lift_the_limit() -> None:
    pace = Pace(0.05)
    pace.observe(10, 0.1, has_prefill=False)
    pace.observe(100, 0.05, has_prefill=True)
    assert pace.limit is not None
    assert 0 <= pace.limit < 100


def test_a_target_that_one_token_misses_leaves_no_room() -> None:
    pace = Pace(0.001)
    pace.observe(1, 0.011, has_prefill=False)
    pace.observe(101, 0.111, has_prefill=True)
    assert pace.limit == 0


def test_what_a_prompt_costs_is_not_forgotten_over_many_decodes() -> None:
    pace = Pace(0.05)
    pace.observe(101, 0.111, has_prefill=True)
    for _ in range(10_000):
        pace.observe(1, 0.011, has_prefill=False)
    assert pace.limit == pytest.approx(40, abs=1)


def test_a_machine_that_becomes_slower_is_noticed() -> None:
    pace = Pace(0.05)
    for factor in (1.0, 2.0):
        for _ in range(60):
            pace.observe(1, 0.01 * factor, has_prefill=False)
            pace.observe(50, 0.05 * factor, has_prefill=True)
    assert pace.limit == pytest.approx(1 + 30 / 80 * 49, abs=2)


def seconds_of(num_tokens: int, fixed: float, each: float, bend: float) -> float:
    """A machine that is no line: `bend` is what a step of 1000 tokens takes more than the line says."""
    return fixed + each * num_tokens + bend * (num_tokens / 1000) ** 2


@settings(max_examples=30, deadline=None)
@given(
    fixed=st.floats(0.001, 0.02),
    each=st.floats(0.0002, 0.002),
    bend=st.floats(0, 0.3),
    target=st.floats(0.04, 0.2),
    noise=st.lists(st.floats(0.95, 1.05), min_size=7, max_size=7),
)
def test_running_answers_keep_their_pace_while_prompts_come(
    fixed: float, each: float, bend: float, target: float, noise: list[float]
) -> None:
    scheduler, pace = make_scheduler(2000, 16, 512), Pace(target)
    for number in range(4):
        scheduler.add(make_sequence(f"running-{number}", [number] * 10, 10_000))
    mixed: list[float] = []
    for step in range(250):
        if step % 20 == 19:
            scheduler.add(make_sequence(f"prompt-{step}", [step % 256] * 700, 1))
        batch = scheduler.schedule(pace.limit)
        chunks = [item for item in batch.items if item.num_new_tokens > 1]
        ends = [item.samples for item in chunks]
        decodes = len(batch.items) - len(chunks)
        seconds = seconds_of(batch.num_tokens, fixed, each, bend) * noise[step % 7]
        pace.observe(batch.num_tokens, seconds, has_prefill=bool(chunks))
        scheduler.postprocess(batch, [[1] for item in batch.items if item.samples])
        if decodes and chunks:
            assert all(ends) or batch.num_tokens - decodes >= LEAST_PREFILL
            mixed.append(seconds)
    settled = mixed[20:]
    floor = seconds_of(4 + 16 + LEAST_PREFILL, fixed, each, bend)
    assert sum(settled) / len(settled) < 1.15 * max(target, floor)


def test_without_anything_decoding_a_prompt_gets_the_whole_step() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence("a", 100))
    assert scheduler.schedule(decode_limit=20).num_tokens == 64


def test_a_prompt_gets_on_even_where_there_is_no_room() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    scheduler.add(make_sequence("running", 5, 50))
    scheduler.postprocess(batch := scheduler.schedule(), runner.execute(batch))
    scheduler.add(make_sequence("a", [9] * 100))
    assert [item.num_new_tokens for item in scheduler.schedule(decode_limit=0).items] == [1, LEAST_PREFILL]
