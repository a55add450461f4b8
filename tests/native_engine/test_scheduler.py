from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from native_engine.block_manager import BlockManager
from native_engine.order import OVERTAKINGS
from native_engine.request import FinishReason, Sequence, Stages, Status, stages_of
from native_engine.scheduler import MAX_YIELDS, Scheduler
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler, make_sequence


def run_step(scheduler: Scheduler, runner: FakeRunner) -> list[Sequence]:
    batch = scheduler.schedule()
    return [sequence for sequence, _ in scheduler.postprocess(batch, runner.execute(batch))]


def run_all(scheduler: Scheduler, runner: FakeRunner, limit: int = 10_000) -> None:
    while scheduler.has_work:
        run_step(scheduler, runner)
        limit -= 1
        assert limit, "the schedule does not end"


def run_alone(sequence: Sequence) -> Sequence:
    scheduler = make_scheduler()
    scheduler.add(sequence)
    run_all(scheduler, FakeRunner(scheduler.blocks.num_blocks))
    return sequence


def end_token(prompt: list[int], position: int) -> int:
    return expected_output(prompt, position)[-1]


def test_a_request_gets_the_models_tokens_and_ends_at_max_tokens() -> None:
    sequence = run_alone(make_sequence("a", 37, 20))
    assert sequence.output_token_ids == expected_output(sequence.token_ids[:37], 20)
    assert (sequence.status, sequence.finish_reason) == (Status.FINISHED, FinishReason.LENGTH)
    assert sequence.block_table == []


def test_a_new_request_joins_a_running_batch_at_the_next_step() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    scheduler.add(make_sequence("a", 5, 50))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("b", [9] * 5, 50))
    assert [sequence.request_id for sequence in run_step(scheduler, runner)] == ["a", "b"]


def test_decodes_come_before_prompts_and_a_long_prompt_comes_in_chunks() -> None:
    scheduler, runner = make_scheduler(max_num_batched_tokens=32), FakeRunner(64)
    scheduler.add(make_sequence("a", 5, 50))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("b", [9] * 70, 50))
    chunks = []
    for _ in range(3):
        batch = scheduler.schedule()
        chunks.append([(item.sequence.request_id, item.num_new_tokens, item.samples) for item in batch.items])
        scheduler.postprocess(batch, runner.execute(batch))
    assert chunks == [
        [("a", 1, True), ("b", 31, False)],
        [("a", 1, True), ("b", 31, False)],
        [("a", 1, True), ("b", 8, True)],
    ]


def test_a_batch_counts_its_tokens() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=32)
    scheduler.add(make_sequence("a", 5))
    scheduler.add(make_sequence("b", [9] * 50))
    assert scheduler.schedule().num_tokens == 32


def test_end_of_text_ends_a_request_and_is_its_last_token() -> None:
    prompt = [1, 2, 3]
    end = end_token(prompt, 4)
    sequence = run_alone(make_sequence("a", prompt, 50, eos=frozenset({end})))
    assert sequence.finish_reason is FinishReason.STOP
    assert sequence.output_token_ids == expected_output(prompt, 50, frozenset({end}))


def test_end_of_text_as_the_last_token_allowed_is_a_stop() -> None:
    prompt = [1, 2, 3]
    output = expected_output(prompt, 50, frozenset({end_token(prompt, 4)}))
    sequence = run_alone(make_sequence("a", prompt, len(output), eos=frozenset({output[-1]})))
    assert sequence.finish_reason is FinishReason.STOP


def test_ignore_eos_and_min_tokens_run_past_the_end_of_text() -> None:
    prompt = [1, 2, 3]
    end = frozenset({end_token(prompt, 1)})
    assert run_alone(make_sequence("a", prompt, 30, eos=end, ignore_eos=True)).num_output_tokens == 30
    assert run_alone(make_sequence("a", prompt, 30, eos=end, min_tokens=2)).num_output_tokens > 1


def test_a_sequence_ends_by_length_at_the_models_limit() -> None:
    scheduler = make_scheduler(max_model_len=40)
    sequence = make_sequence("a", 30, None)
    scheduler.add(sequence)
    run_all(scheduler, FakeRunner(64))
    assert (sequence.num_tokens, sequence.finish_reason) == (40, FinishReason.LENGTH)


def test_a_sequence_that_fills_the_whole_cache_ends_by_length() -> None:
    scheduler = make_scheduler(num_blocks=3)
    sequence = make_sequence("a", 30, 1000)
    scheduler.add(sequence)
    run_all(scheduler, FakeRunner(3))
    assert (sequence.num_tokens, sequence.finish_reason) == (48, FinishReason.LENGTH)
    assert scheduler.num_preemptions == 0


def test_a_prompt_that_can_never_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"has 48 tokens, but a sequence can hold 48 \(48 in the whole KV cache\)"):
        make_scheduler(num_blocks=3).add(make_sequence("a", 48))
    with pytest.raises(ValueError, match=r"has 40 tokens, but a sequence can hold 40 \(1024 in"):
        make_scheduler(max_model_len=40).add(make_sequence("a", 40))


def test_an_empty_prompt_and_a_used_id_are_refused() -> None:
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="prompt is empty"):
        scheduler.add(make_sequence("a", []))
    scheduler.add(make_sequence("a"))
    with pytest.raises(ValueError, match="request id 'a' is in use"):
        scheduler.add(make_sequence("a"))


def test_a_budget_below_the_number_of_sequences_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_num_seqs \(8\).*max_num_batched_tokens \(4\)"):
        make_scheduler(max_num_seqs=8, max_num_batched_tokens=4)


def test_the_times_of_a_request_are_queue_prefill_and_decode() -> None:
    now = 0.0
    scheduler = Scheduler(BlockManager(64), 1, 16, 4096, clock=lambda: now)
    runner = FakeRunner(64)
    first, second = make_sequence("first", 40, 3), make_sequence("second", 5, 2)
    for sequence in (first, second):
        sequence.queued_at = now
        scheduler.add(sequence)
    seen = []
    while scheduler.has_work:
        now += 1
        run_step(scheduler, runner)
        seen.append(stages_of([first], now))
    assert seen[0] == Stages(queue=1, prefill=0, decode=None)
    assert stages_of([first], now) == Stages(queue=1, prefill=2, decode=2)
    assert stages_of([second], now) == Stages(queue=6, prefill=0, decode=1)
    assert stages_of([first, second], now) == Stages(queue=1, prefill=2, decode=4)


def test_what_a_preemption_costs_is_decode_time() -> None:
    now = 0.0
    scheduler, runner, _, new = preempting_pair(clock=lambda: now)
    while scheduler.has_work:
        now += 1
        run_step(scheduler, runner)
    new.queued_at = 0.0
    assert new.num_preemptions == 1
    assert stages_of([new], now) == Stages(queue=1, prefill=0, decode=now - 1)


def preempting_pair(
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Scheduler, FakeRunner, Sequence, Sequence]:
    """Two requests that fit together at first, and not to their ends."""
    scheduler, runner = Scheduler(BlockManager(6), 8, 64, 4096, clock), FakeRunner(6)
    old, new = make_sequence("old", 30, 40), make_sequence("new", [9] * 30, 40)
    scheduler.add(old)
    scheduler.add(new)
    return scheduler, runner, old, new


def test_the_newest_steps_aside_and_its_output_is_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    scheduler, runner, old, new = preempting_pair()
    with caplog.at_level(logging.INFO):
        run_all(scheduler, runner)
    assert (old.num_preemptions, new.num_preemptions, scheduler.num_preemptions) == (0, 1, 1)
    for sequence in (old, new):
        assert sequence.output_token_ids == expected_output(sequence.token_ids[:30], 40)
    assert "preempted new" in caplog.text


def test_nobody_is_let_in_by_a_step_that_preempted() -> None:
    scheduler, runner, _, new = preempting_pair()
    while not new.num_preemptions:
        if new.num_output_tokens == 10:
            scheduler.add(make_sequence("tiny", [3], 1)) if "tiny" not in scheduler else None
        batch = scheduler.schedule()
        scheduler.postprocess(batch, runner.execute(batch))
    assert batch.preempted == [new]
    assert [item.sequence.request_id for item in batch.items] == ["old"]


def test_a_preempted_request_goes_before_all_that_wait() -> None:
    scheduler, runner, _, new = preempting_pair()
    late = make_sequence("late", [4] * 40, 5)
    while not new.num_preemptions:
        if "late" not in scheduler:
            scheduler.add(late)
        run_step(scheduler, runner)
    assert [sequence.request_id for sequence in scheduler.waiting] == ["new", "late"]
    assert new.status is Status.PREEMPTED


def test_a_prompt_is_admitted_by_its_full_length() -> None:
    scheduler, runner = make_scheduler(num_blocks=8, max_num_batched_tokens=16), FakeRunner(8)
    scheduler.add(make_sequence("a", 60, 4))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("b", [9] * 100, 4))
    for _ in range(3):
        run_step(scheduler, runner)
    assert [sequence.request_id for sequence in scheduler.running] == ["a"]


def test_a_large_request_at_the_head_is_not_overtaken() -> None:
    scheduler, runner = make_scheduler(num_blocks=8), FakeRunner(8)
    for request_id, prompt in (("a", 60), ("large", 100), ("small", 2)):
        scheduler.add(make_sequence(request_id, prompt, 4))
    run_step(scheduler, runner)
    assert [sequence.request_id for sequence in scheduler.waiting] == ["large", "small"]


def test_a_repeated_prompt_is_computed_from_the_cache_on() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    scheduler.add(make_sequence("a", 50, 4))
    run_all(scheduler, runner)
    again = make_sequence("b", 50, 4)
    scheduler.add(again)
    assert scheduler.schedule().num_tokens == 2
    assert again.num_cached_tokens == 48
    assert (scheduler.prefix_cache_queries, scheduler.prefix_cache_hits) == (100, 48)


def test_equal_prompts_that_come_together_are_computed_once() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    sequences = [make_sequence(f"id-{child}", 50, 4) for child in range(4)]
    for sequence in sequences:
        scheduler.add(sequence)
    batch = scheduler.schedule()
    assert [item.num_new_tokens for item in batch.items] == [50, 2, 2, 2]
    assert scheduler.blocks.num_used == 4 + 3
    scheduler.postprocess(batch, runner.execute(batch))
    run_all(scheduler, runner)
    assert all(sequence.output_token_ids == expected_output(sequence.token_ids[:50], 4) for sequence in sequences)


def test_a_conversation_that_goes_on_finds_its_answers_too() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    first = make_sequence("a", 20, 30)
    scheduler.add(first)
    run_all(scheduler, runner)
    scheduler.add(second := make_sequence("b", [*first.token_ids, 5, 6, 7], 4))
    run_all(scheduler, runner)
    assert second.num_cached_tokens == 48


def test_another_tenants_prompt_gives_no_hit() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    scheduler.add(make_sequence("a", 50, 4, salt=b"one"))
    run_all(scheduler, runner)
    scheduler.add(other := make_sequence("b", 50, 4, salt=b"two"))
    run_all(scheduler, runner)
    assert other.num_cached_tokens == 0


@pytest.mark.parametrize("state", ["waiting", "prefilling", "decoding", "preempted", "computed"])
def test_abort_frees_at_once_from_every_state(state: str) -> None:
    scheduler, runner, old, new = preempting_pair()
    scheduler.max_num_batched_tokens = {"waiting": 8, "prefilling": 40}.get(state, 64)
    for _ in range({"waiting": 0, "prefilling": 0, "decoding": 4, "preempted": 25, "computed": 4}[state]):
        run_step(scheduler, runner)
    batch = scheduler.schedule()
    tokens = runner.execute(batch)
    if state != "computed":
        scheduler.postprocess(batch, tokens)
    assert {
        "waiting": new.status is Status.WAITING,
        "prefilling": 0 < new.num_computed_tokens < 30,
        "decoding": new.num_output_tokens > 1,
        "preempted": new.status is Status.PREEMPTED,
        "computed": new.num_tokens - new.num_computed_tokens == 1,
    }[state]
    assert scheduler.abort("new") is new
    assert (new.status, new.finish_reason, new.block_table) == (Status.FINISHED, FinishReason.ABORT, [])
    assert scheduler.blocks.check_integrity([old]) == []
    assert scheduler.abort("new") is None
    if state == "computed":
        assert scheduler.postprocess(batch, tokens) == [(old, 1)]
    run_all(scheduler, runner)
    assert old.output_token_ids == expected_output(old.token_ids[:30], 40)
    assert scheduler.blocks.num_free == 6


def test_abort_of_an_unknown_request_does_nothing() -> None:
    assert make_scheduler().abort("nobody") is None


def test_a_token_that_is_no_number_ends_that_sequence_only() -> None:
    scheduler, runner = make_scheduler(), FakeRunner(64)
    good, bad = make_sequence("good", 20, 8), make_sequence("bad", [9] * 20, 8)
    scheduler.add(good)
    scheduler.add(bad)
    batch = scheduler.schedule()
    assert scheduler.postprocess(batch, [runner.execute(batch)[0], [-1]]) == [(good, 1), (bad, 0)]
    assert (bad.finish_reason, bad.num_output_tokens) == (FinishReason.ERROR, 0)
    run_all(scheduler, runner)
    assert good.output_token_ids == expected_output(good.token_ids[:20], 8)
    scheduler.add(retried := make_sequence("retried", [9] * 20, 8))
    run_all(scheduler, runner)
    assert retried.num_cached_tokens == 0, "what a failed request left in the cache was used again"


def test_too_few_tokens_from_a_runner_are_a_fault() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_sequence("a"))
    with pytest.raises(RuntimeError, match="to 0 sequences of 1"):
        scheduler.postprocess(scheduler.schedule(), [])


def test_a_sequence_takes_no_token_after_the_one_that_ends_it() -> None:
    scheduler = make_scheduler()
    stopped, full, whole = (make_sequence(name, 20, 4, eos=frozenset({7})) for name in ("stopped", "full", "whole"))
    for sequence in (stopped, full, whole):
        scheduler.add(sequence)
    grown = scheduler.postprocess(scheduler.schedule(), [[1, 7, 2], [1, 2, 3, 4, 5], [1, 2]])
    assert grown == [(stopped, 2), (full, 4), (whole, 2)]
    assert (stopped.output_token_ids, stopped.finish_reason) == ([1, 7], FinishReason.STOP)
    assert (full.output_token_ids, full.finish_reason) == ([1, 2, 3, 4], FinishReason.LENGTH)
    assert (whole.output_token_ids, whole.finish_reason) == ([1, 2], None)
    assert scheduler.generation_tokens == 8


def test_the_lower_priority_goes_first_and_equals_in_order_of_arrival() -> None:
    scheduler, runner = make_scheduler(max_num_seqs=1), FakeRunner(64)
    for number, priority in enumerate([2, 0, 1, 0, 2]):
        scheduler.add(make_sequence(f"{priority}-{number}", 5, 1, priority=priority))
    served = []
    while scheduler.has_work:
        served += [sequence.request_id for sequence in run_step(scheduler, runner)]
    assert served == ["0-1", "0-3", "1-2", "2-0", "2-4"]


def test_without_a_seat_the_newest_of_the_worst_priority_steps_aside() -> None:
    scheduler, runner = make_scheduler(max_num_seqs=3), FakeRunner(64)
    running = [make_sequence(name, 5, 20, priority=priority) for name, priority in (("a", 2), ("b", 2), ("c", 1))]
    for sequence in running:
        scheduler.add(sequence)
    run_step(scheduler, runner)
    scheduler.add(make_sequence("urgent", 5, 3))
    batch = scheduler.schedule()
    assert [sequence.request_id for sequence in batch.preempted] == ["b"]
    assert [item.sequence.request_id for item in batch.items] == ["c", "a", "urgent"]
    scheduler.postprocess(batch, runner.execute(batch))
    run_all(scheduler, runner)
    assert all(sequence.output_token_ids == expected_output([1, 2, 3, 4, 5], 20) for sequence in running)


def test_without_blocks_no_more_step_aside_than_needed() -> None:
    scheduler, runner = make_scheduler(num_blocks=12), FakeRunner(12)
    for number in range(3):
        scheduler.add(make_sequence(f"{number}", [number + 1] * 20, 8, priority=2))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("urgent", [9] * 60, 2))
    batch = scheduler.schedule()
    assert [sequence.request_id for sequence in batch.preempted] == ["2"]
    assert "urgent" in [item.sequence.request_id for item in batch.items]


def test_nobody_steps_aside_in_vain_or_for_an_equal() -> None:
    scheduler, runner = make_scheduler(num_blocks=8), FakeRunner(8)
    scheduler.add(make_sequence("equal", 60, 8))
    scheduler.add(make_sequence("worse", [9] * 20, 8, priority=2))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("large", [8] * 100, 8))
    batch = scheduler.schedule()
    assert batch.preempted == []
    assert [item.sequence.request_id for item in batch.items] == ["equal", "worse"]


def test_blocks_that_a_better_one_shares_free_nothing() -> None:
    scheduler, runner = make_scheduler(num_blocks=6), FakeRunner(6)
    scheduler.add(make_sequence("better", 60, 8))
    scheduler.add(make_sequence("sharing", 60, 8, priority=2))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("urgent", [9] * 30, 8, priority=1))
    assert scheduler.schedule().preempted == []


def test_a_better_request_does_not_wait_for_the_rest_of_a_worse_ones_prompt() -> None:
    scheduler, runner = make_scheduler(max_num_batched_tokens=16), FakeRunner(64)
    scheduler.add(make_sequence("batch", 200, 4, priority=2))
    run_step(scheduler, runner)
    scheduler.add(make_sequence("urgent", [9] * 5, 4))
    batch = scheduler.schedule()
    assert [(item.sequence.request_id, item.num_new_tokens) for item in batch.items] == [("urgent", 5), ("batch", 11)]


def test_a_request_steps_aside_only_so_often() -> None:
    scheduler, runner = make_scheduler(max_num_seqs=1), FakeRunner(64)
    scheduler.add(batch_work := make_sequence("batch", 5, 40, priority=2))
    for number in range(10):
        run_step(scheduler, runner)
        scheduler.add(make_sequence(f"{number}", [9] * 5, 1))
        run_step(scheduler, runner)
    assert batch_work.num_yields == MAX_YIELDS
    assert batch_work.status is Status.RUNNING


@pytest.mark.parametrize("rushing", [0, -5])
def test_the_oldest_is_promoted_after_so_many_went_before_it(rushing: int) -> None:
    scheduler, runner = make_scheduler(max_num_seqs=1), FakeRunner(64)
    for number in range(20):
        scheduler.add(make_sequence(f"batch-{number}", 5, 1, priority=2))
        scheduler.add(make_sequence(f"{number}", 5, 1, priority=rushing))
    served = []
    while scheduler.has_work:
        served += [sequence.request_id for sequence in run_step(scheduler, runner)]
    assert [served.index(f"batch-{number}") for number in range(3)] == [8, 17, 22]
    assert served[:8] == [str(number) for number in range(8)]


def test_a_promoted_request_is_not_displaced() -> None:
    scheduler, runner = make_scheduler(max_num_seqs=1), FakeRunner(64)
    scheduler.add(make_sequence("batch", 5, 10, priority=2))
    for number in range(OVERTAKINGS + 4):
        scheduler.add(make_sequence(f"{number}", 5, 1))
    for _ in range(OVERTAKINGS + 5):
        run_step(scheduler, runner)
    assert [sequence.request_id for sequence in scheduler.running] == ["batch"]
    assert scheduler.num_preemptions == 0


@pytest.mark.parametrize("prompt", [20, 300])
def test_with_a_window_a_long_answer_holds_few_blocks(prompt: int) -> None:
    window = 100
    scheduler, runner = make_scheduler(num_blocks=64, window=window), FakeRunner(64, window=window)
    scheduler.add(sequence := make_sequence("a", prompt, 600))
    most = 0
    while scheduler.has_work:
        run_step(scheduler, runner)
        if sequence.num_output_tokens > 1:
            most = max(most, scheduler.blocks.num_used)
    assert most <= -(-window // 16) + 2
    assert sequence.output_token_ids == expected_output(sequence.token_ids[:prompt], 600)


def test_a_preempted_request_with_a_window_goes_on_as_before() -> None:
    scheduler, runner = make_scheduler(num_blocks=8, window=40), FakeRunner(8, window=40)
    sequences = [make_sequence(str(index), [index + 1] * 60, 60, priority=2 - index) for index in range(3)]
    for sequence in sequences:
        for _ in range(15):
            run_step(scheduler, runner)
        scheduler.add(sequence)
    run_all(scheduler, runner)
    assert scheduler.num_preemptions > 0
    assert all(sequence.output_token_ids == expected_output(sequence.token_ids[:60], 60) for sequence in sequences)


def test_what_a_preempted_request_finds_of_its_own_is_not_counted_as_cached() -> None:
    scheduler, runner, old, new = preempting_pair()
    run_all(scheduler, runner)
    assert new.num_preemptions == 1
    assert (old.num_cached_tokens, new.num_cached_tokens) == (0, 0)
    assert (scheduler.prefix_cache_queries, scheduler.prefix_cache_hits, scheduler.prompt_tokens) == (60, 0, 60)


def test_a_preempted_request_finds_no_other_tenants_blocks() -> None:
    scheduler, runner = make_scheduler(num_blocks=6), FakeRunner(6)
    old, new = make_sequence("old", 30, 40, salt=b"one"), make_sequence("new", 30, 40, salt=b"two")
    scheduler.add(old)
    scheduler.add(new)
    while scheduler.has_work:
        run_step(scheduler, runner)
        assert not set(old.block_table) & set(new.block_table)
    assert new.num_preemptions == 1
    assert old.output_token_ids == new.output_token_ids == expected_output(old.token_ids[:30], 40)


@pytest.mark.parametrize("num_seqs", [1, 4])
def test_every_sequence_at_its_limit_and_no_block_left_is_no_deadlock(num_seqs: int) -> None:
    scheduler, runner = make_scheduler(num_blocks=4, max_num_seqs=num_seqs), FakeRunner(4)
    sequences = [make_sequence(str(index), [index] * (63 - index), None) for index in range(6)]
    for sequence in sequences:
        scheduler.add(sequence)
    run_all(scheduler, runner)
    assert all(sequence.finish_reason is FinishReason.LENGTH for sequence in sequences)
    assert all(sequence.num_tokens == 64 for sequence in sequences)
    assert scheduler.blocks.num_free == 4


@pytest.mark.parametrize(("num_blocks", "max_model_len"), [(4, 4096), (64, 64)])
def test_a_prompt_that_leaves_room_for_one_token_gets_it(num_blocks: int, max_model_len: int) -> None:
    scheduler, runner = make_scheduler(num_blocks, max_model_len=max_model_len), FakeRunner(num_blocks)
    scheduler.add(sequence := make_sequence("a", 63, None))
    run_all(scheduler, runner)
    assert (sequence.num_output_tokens, sequence.finish_reason) == (1, FinishReason.LENGTH)
    with pytest.raises(ValueError, match="has 64 tokens"):
        scheduler.add(make_sequence("b", 64))
