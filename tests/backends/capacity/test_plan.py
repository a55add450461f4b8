"""What a plan concludes from the arithmetic; the arithmetic itself is held in test_capacity.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.capacity import GIB, kv_bytes_per_token
from backends.capacity.plan import Hardware, Load, Model, make_plan, step_time, sum_seconds

# Qwen3-8B in bf16 on 80 GiB at 3.35 TB/s.
MODEL = Model(
    weights_read=lambda batch: 15.1e9,
    kv_bytes_per_token=kv_bytes_per_token(36, 8, 128, 2),
    num_layers=36,
    weight_bytes=16.4e9,
    active_parameters=6.9e9,
    hidden_size=4096,
)
MACHINE = Hardware(memory_bytes=80 * GIB, bandwidth=3.35e12, operations=989e12, link=450e9)
LOAD = Load(context=4096, people=500)
KV_TYPES = {"bf16": 1.0, "fp8": 0.5}


def test_it_advises_no_more_seats_than_memory_holds_nor_than_the_target_allows() -> None:
    held = make_plan(MODEL, MACHINE, LOAD, KV_TYPES)
    assert held.advice is not None
    assert held.memory is not None
    assert held.advice.max_num_seqs == int(held.memory.conversations["bf16"])
    assert held.advice.limited_by == "memory"
    assert held.advice.machines == -(-500 // held.advice.max_num_seqs)
    quick = make_plan(MODEL, MACHINE, replace(LOAD, target_tok_s=150), KV_TYPES)
    assert quick.advice is not None
    assert quick.advice.limited_by == "speed"
    seats = quick.advice.max_num_seqs
    assert 1 / step_time(seats, MODEL, MACHINE, LOAD) >= 150 > 1 / step_time(seats + 1, MODEL, MACHINE, LOAD)


def test_where_one_alone_is_too_slow_or_finds_no_room_it_advises_nobody() -> None:
    for hardware, load in (
        (MACHINE, replace(LOAD, target_tok_s=1000)),
        (replace(MACHINE, memory_bytes=10 * GIB), LOAD),
    ):
        advice = make_plan(MODEL, hardware, load, KV_TYPES).advice
        assert advice is not None
        assert (advice.max_num_seqs, advice.machines, advice.wait_s) == (0, None, None)


def test_who_finds_no_turn_waits_until_those_in_use_come_free() -> None:
    load = replace(LOAD, target_tok_s=100)
    half = {1: 0.5 / step_time(1, MODEL, MACHINE, load)}
    for measured, share in (({}, 1.0), (half, 0.5)):
        advice = make_plan(MODEL, MACHINE, replace(load, measured=measured), KV_TYPES).advice
        assert advice is not None
        seats = advice.max_num_seqs
        turn = load.output_tokens * step_time(seats, MODEL, MACHINE, load) / share
        assert advice.wait_s == pytest.approx((500 - seats) * turn / seats)
    alone = make_plan(MODEL, MACHINE, replace(load, people=1), KV_TYPES).advice
    assert alone is not None
    assert alone.wait_s == 0


def test_the_least_measured_share_decides_what_is_advised() -> None:
    load = replace(LOAD, target_tok_s=150)
    computed = {batch: batch / step_time(batch, MODEL, MACHINE, load) for batch in (1, 16)}
    plan = make_plan(MODEL, MACHINE, replace(load, measured={1: computed[1] * 0.9, 16: computed[16] * 0.75}), KV_TYPES)
    assert plan.advice is not None
    assert plan.advice.expected_share == pytest.approx(0.75)
    assert 0.75 / step_time(plan.advice.max_num_seqs, MODEL, MACHINE, load) >= 150
    assert {row.batch: row.measured_share for row in plan.rows if row.measured_share} == pytest.approx(
        {1: 0.9, 16: 0.75}
    )


def test_what_is_measured_above_the_bound_was_of_something_else_and_is_not_counted_on() -> None:
    computed = 16 / step_time(16, MODEL, MACHINE, LOAD)
    plain, above = (
        make_plan(MODEL, MACHINE, replace(LOAD, target_tok_s=150, measured=measured), KV_TYPES)
        for measured in ({}, {16: 2 * computed})
    )
    assert above.advice == plain.advice
    assert [row.measured_share for row in above.rows if row.measured_share] == pytest.approx([2])


def test_two_gpus_read_twice_as_quickly_and_pay_for_their_sums() -> None:
    both = replace(MACHINE, gpus=2)
    assert sum_seconds(16, MODEL, MACHINE) == 0
    assert sum_seconds(16, MODEL, both) == pytest.approx(72 * (16 * 4096 * 2 / 450e9 + 10e-6))
    halved = step_time(16, MODEL, MACHINE, LOAD) / 2
    assert step_time(16, MODEL, both, LOAD) == pytest.approx(halved + sum_seconds(16, MODEL, both))
    one, two = (make_plan(MODEL, each, LOAD, KV_TYPES).memory for each in (MACHINE, both))
    assert one is not None
    assert two is not None
    assert two.kv_budget_gib - one.kv_budget_gib == pytest.approx(80 * 0.92)


def test_a_prompt_is_its_context_less_the_answer_and_what_is_shared_is_not_computed() -> None:
    prefill = make_plan(MODEL, MACHINE, replace(LOAD, output_tokens=96, shared_prefix=3000), KV_TYPES).prefill
    assert prefill is not None
    assert prefill.prompt_tokens == 4000
    assert prefill.seconds == pytest.approx(2 * 6.9e9 * 4000 / 989e12)
    assert prefill.shared_s == pytest.approx(prefill.seconds / 4)
    assert (prefill.last_s, prefill.last_shared_s) == pytest.approx((500 * prefill.seconds, 500 * prefill.shared_s))


def test_what_is_not_asked_about_is_left_out() -> None:
    memory_only = make_plan(replace(MODEL, weights_read=None), MACHINE, LOAD, KV_TYPES)
    assert (memory_only.rows, memory_only.finish, memory_only.advice) == ([], None, None)
    assert memory_only.memory is not None
    speed_only = make_plan(replace(MODEL, weight_bytes=None, active_parameters=None), MACHINE, LOAD, KV_TYPES)
    assert (speed_only.memory, speed_only.prefill) == (None, None)
    assert speed_only.rows
