"""Steps planned while the one before is under way: no answer changes, nothing is lost, nothing is used too early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.ahead import can_be_followed
from native_engine.batch import UNKNOWN, ScheduledBatch, ScheduledSequence
from native_engine.drafts import PromptLookup
from native_engine.engine import Engine, EngineLoop, SequenceOutput
from native_engine.pace import Pace
from native_engine.request import FinishReason, SamplingParams, Sequence
from native_engine.scheduler import Scheduler
from tests.native_engine.ahead_runner import AheadFake, FakeStep
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler, make_sequence

ENDS = frozenset({0, 1, 2})


@dataclass(frozen=True)
class Arrival:
    step: int
    prompt: tuple[int, ...]
    max_tokens: int | None
    abort_after: int | None
    salt: bytes
    priority: int


@dataclass(frozen=True)
class Workload:
    requests: list[Arrival]
    num_blocks: int
    max_num_seqs: int
    budget: int
    max_model_len: int
    num_host_blocks: int = 0
    window: int | None = None
    guesses: int = 0
    hosts: frozenset[str] = frozenset()
    poison: dict[str, int] = field(default_factory=dict)
    refuses: bool = False

    def scheduler(self) -> Scheduler:
        return make_scheduler(
            self.num_blocks,
            self.max_num_seqs,
            self.budget,
            self.max_model_len,
            num_speculative_tokens=self.guesses,
            num_host_blocks=self.num_host_blocks,
            window=self.window,
        )

    def ahead(self) -> AheadFake:
        return AheadFake(
            self.num_blocks,
            self.num_host_blocks,
            self.window,
            poison=self.poison,
            hosts=self.hosts,
            refuses=self.refuses,
        )

    def one_by_one(self) -> FakeRunner:
        return FakeRunner(self.num_blocks, num_host_blocks=self.num_host_blocks, window=self.window)


@st.composite
def arrivals(draw: st.DrawFn, most: int) -> Arrival:
    shared = draw(st.integers(0, most // 2))
    own = draw(st.integers(1, max(1, min(most // 2, 40))))
    return Arrival(
        step=draw(st.integers(0, 10)),
        prompt=(*[1] * shared, *[draw(st.integers(2, 4))] * own),
        max_tokens=draw(st.sampled_from([1, 2, 7, 20, 40, None])),
        abort_after=draw(st.sampled_from([None, None, None, 0, 1, 5, 20])),
        salt=draw(st.sampled_from([b"", b"", b"tenant"])),
        priority=draw(st.sampled_from([0, 0, 1, 2])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    num_blocks = draw(st.integers(2, 10))
    max_num_seqs = draw(st.integers(1, 6))
    requests = draw(st.lists(arrivals(num_blocks * 16 - 12), min_size=2, max_size=8))
    names = st.sampled_from([str(index) for index in range(len(requests))])
    return Workload(
        requests,
        num_blocks,
        max_num_seqs,
        budget=draw(st.integers(max_num_seqs, 48)),
        max_model_len=num_blocks * 16 + draw(st.integers(-10, 10)),
        num_host_blocks=draw(st.sampled_from([0, 2, 6])),
        window=draw(st.sampled_from([None, None, 1, 15, 16, 17, 33, 70])),
        guesses=draw(st.sampled_from([0, 0, 0, 3])),
        hosts=frozenset(draw(st.lists(names, max_size=2))),
        poison=draw(st.dictionaries(names, st.integers(0, 60), max_size=2)),
        refuses=draw(st.booleans()),
    )


class Play:
    """A workload from its first arrival until the engine is idle; every step is checked."""

    def __init__(self, workload: Workload, runner: FakeRunner) -> None:
        self.requests = workload.requests
        self.runner = runner
        self.engine = Engine(runner, workload.scheduler())
        self.sequences: list[Sequence] = []
        self.outputs: list[SequenceOutput] = []
        step = 0
        last_event = max(request.step + (request.abort_after or 0) for request in self.requests)
        while step <= last_event or self.engine.has_work:
            self._clients(step)
            self.outputs += self.engine.step()
            self._check()
            step += 1
            assert step < 5000, "the schedule does not end"

    def sequence(self, index: int) -> Sequence:
        return next(each for each in self.sequences if each.request_id == str(index))

    def _clients(self, step: int) -> None:
        for index, request in enumerate(self.requests):
            if request.step == step:
                prompt, priority = list(request.prompt), request.priority
                sequence = make_sequence(
                    str(index), prompt, request.max_tokens, salt=request.salt, eos=ENDS, priority=priority
                )
                self.sequences.append(sequence)
                self.engine.add(sequence)
            if request.abort_after is not None and step == request.step + request.abort_after:
                self.outputs += self.engine.abort(str(index))

    def _check(self) -> None:
        assert self.engine.scheduler.blocks.check_integrity(self.sequences) == []
        assert not any(UNKNOWN in sequence.token_ids for sequence in self.sequences)
        assert not isinstance(self.runner, AheadFake) or self.runner.faults == []

    def check_end(self) -> None:
        assert self.engine.stats().kv_blocks_used == 0
        for sequence in self.sequences:
            told = [output for output in self.outputs if output.request_id == sequence.request_id]
            assert [bool(output.finish_reason) for output in told] == [False] * (len(told) - 1) + [True]
            assert told[-1].finish_reason is sequence.finish_reason
            tokens = [token for output in told for token in output.new_token_ids]
            prompt = sequence.token_ids[: sequence.num_prompt_tokens]
            assert tokens == sequence.output_token_ids == expected_output(prompt, len(tokens), ENDS)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(workload=workloads())
def test_every_answer_and_its_end_are_as_they_are_one_step_at_a_time(workload: Workload) -> None:
    ahead, plain = Play(workload, workload.ahead()), Play(workload, workload.one_by_one())
    for play in (ahead, plain):
        play.check_end()
    for index, request in enumerate(workload.requests):
        mine, other = ahead.sequence(index), plain.sequence(index)
        at = workload.poison.get(str(index), 10**6)
        if request.abort_after is not None:
            continue
        if other.num_tokens - 1 <= at:
            assert (mine.token_ids, mine.finish_reason) == (other.token_ids, other.finish_reason)
        elif not workload.guesses:  # with guesses it may get past the place, or come to its end, without that step
            assert (mine.num_tokens, mine.finish_reason) == (max(at + 1, len(request.prompt)), FinishReason.ERROR)


@settings(max_examples=40, deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(1, 255), min_size=1, max_size=40), min_size=3, max_size=6),
    num_blocks=st.integers(5, 8),
)
def test_scarce_blocks_and_ends_at_any_place_change_no_answer(prompts: list[list[int]], num_blocks: int) -> None:
    requests = [Arrival(0, tuple(prompt), 40, None, b"", 0) for prompt in prompts]
    workload = Workload(requests, num_blocks, max_num_seqs=8, budget=64, max_model_len=4096)
    play = Play(workload, workload.ahead())
    play.check_end()
    assert [len(each.output_token_ids) for each in play.sequences] == [
        len(expected_output(prompt, 40, ENDS)) for prompt in prompts
    ]


def make_engine(num_blocks: int = 64, **changes: Any) -> tuple[Engine, AheadFake]:
    runner = AheadFake(num_blocks, **changes)
    return Engine(runner, make_scheduler(num_blocks)), runner


def add(engine: Engine, *sequences: Sequence) -> None:
    for sequence in sequences:
        engine.add(sequence)


def run(engine: Engine) -> list[SequenceOutput]:
    outputs = []
    while engine.has_work:
        outputs += engine.step()
    assert isinstance(engine.runner, AheadFake)
    assert engine.runner.faults == []
    return outputs


def prompt_that_ends(after: int) -> list[int]:
    """One whose answer ends by itself with its token of this number."""
    prompts = ([first, second] for first in range(5, 50) for second in range(5, 50))
    return next(prompt for prompt in prompts if len(expected_output(prompt, 40, ENDS)) == after)


def test_a_step_is_launched_before_the_tokens_of_the_one_before_are_told() -> None:
    engine, runner = make_engine()
    add(engine, make_sequence("a", 20, 3))
    (first,) = engine.step()
    assert (len(first.new_token_ids), len(runner.batches)) == (1, 2)
    assert runner.batches[1].items[0].follows == 0


def test_an_end_by_length_is_known_in_advance() -> None:
    engine, runner = make_engine()
    add(engine, make_sequence("a", 20, 3), make_sequence("b", 20, 1))
    outputs = run(engine)
    assert [len(batch.items) for batch in runner.batches] == [2, 1, 1]
    assert [output.finish_reason for output in outputs if output.finish_reason] == [FinishReason.LENGTH] * 2


def test_what_is_computed_behind_an_end_is_thrown_away_and_its_blocks_are_kept_until_then() -> None:
    engine, runner = make_engine()
    add(engine, sequence := make_sequence("a", prompt_that_ends(4), 40, eos=ENDS))
    for _ in range(4):
        outputs = engine.step()
    assert (outputs[0].finish_reason, len(runner.batches)) == (FinishReason.STOP, 5)
    assert (engine.has_work, engine.scheduler.has_work, engine.stats().kv_blocks_used) == (True, False, 1)
    assert engine.step() == []
    assert (engine.has_work, engine.stats().kv_blocks_used) == (False, 0)
    assert sequence.output_token_ids == expected_output(prompt_that_ends(4), 40, ENDS)


def test_an_abort_is_told_at_once_and_its_blocks_are_kept_while_they_are_written() -> None:
    engine, _ = make_engine()
    add(engine, make_sequence("a", 20, 9), make_sequence("b", [5] * 20, 9))
    engine.step()
    assert [output.finish_reason for output in engine.abort("a")] == [FinishReason.ABORT]
    assert engine.abort("a") == []
    assert engine.stats().kv_blocks_used == 4
    assert [output.request_id for output in engine.step()] == ["b"]
    assert engine.stats().kv_blocks_used == 2


def test_logits_that_are_no_numbers_end_a_request_whose_next_step_is_under_way() -> None:
    class Broken(AheadFake):
        def next_token(self, tokens: list[int]) -> int:
            return -1 if tokens[0] == 9 and len(tokens) > 22 else super().next_token(tokens)

    runner = Broken(64)
    engine = Engine(runner, make_scheduler(64))
    add(engine, bad := make_sequence("bad", [9] * 20, 9), good := make_sequence("good", 20, 9))
    outputs = run(engine)
    assert (bad.finish_reason, bad.num_output_tokens) == (FinishReason.ERROR, 3)
    assert good.output_token_ids == expected_output(good.token_ids[:20], 9)
    assert len([output for output in outputs if output.finish_reason]) == 2
    assert engine.stats().kv_blocks_used == 0


def test_a_block_that_fills_with_a_token_that_was_unknown_is_found_later() -> None:
    engine, _ = make_engine()
    add(engine, first := make_sequence("a", 20, 30))
    run(engine)
    add(engine, second := make_sequence("b", [*first.token_ids, 7], 1))
    run(engine)
    assert second.num_cached_tokens == 48


def test_nobody_steps_aside_for_a_step_that_follows() -> None:
    engine, runner = make_engine(6)
    sequences = [make_sequence(name, [place] * 30, 40) for place, name in enumerate("abc")]
    add(engine, *sequences)
    run(engine)
    assert engine.stats().preemptions_total > 0
    assert not any(item.follows is not None for batch in runner.batches if batch.preempted for item in batch.items)
    assert all(each.output_token_ids == expected_output(each.token_ids[:30], 40) for each in sequences)


def test_a_better_request_is_not_kept_waiting_by_steps_that_follow_one_another() -> None:
    engine, _ = make_engine()
    engine.scheduler.max_num_seqs = 1
    add(engine, make_sequence("worse", 20, 90, priority=1))
    engine.step()
    add(engine, better := make_sequence("better", [5] * 20, 2))
    for _ in range(4):
        engine.step()
    assert better.finish_reason is FinishReason.LENGTH


class Anything:
    """A grammar."""

    ready = True

    def allowed(self) -> bytes | None:
        return b"\xff" * 8

    def push(self, token: int) -> None: ...


def test_what_hangs_on_the_hosts_part_in_a_result_is_not_planned_before_it() -> None:
    def can_follow(num_new_tokens: int = 20, drafts: tuple[int, ...] = (), **changes: Any) -> bool:
        sequence = make_sequence("a", 20)
        for name, value in changes.items():
            setattr(sequence, name, value)
        item = ScheduledSequence(sequence, num_new_tokens, 1)
        item.drafts = drafts
        return can_be_followed(ScheduledBatch([item]))

    assert can_follow()
    assert not can_follow(drafts=(1,))
    assert not can_follow(lookup=PromptLookup(3))
    assert not can_follow(constraint=Anything())
    assert can_follow(10, lookup=PromptLookup(3), constraint=Anything()), "no token is chosen yet"
    assert not can_follow(10, params=SamplingParams(prompt_logprobs=1))


def test_what_an_aborted_request_was_to_write_in_a_step_that_fails_is_not_found_later() -> None:
    engine, runner = make_engine(poison={"a": 21})
    add(engine, make_sequence("a", 20, 9))
    engine.step()
    prompt = [5] * 40
    add(engine, make_sequence("b", prompt, 9))
    engine.step()
    assert [item.sequence.request_id for item in runner.batches[-1].items] == ["a", "b"]
    engine.abort("b")
    add(engine, make_sequence("c", prompt, 9))
    outputs = run(engine)
    add(engine, last := make_sequence("d", prompt, 9))
    outputs += run(engine)
    assert {each.request_id: each.finish_reason for each in outputs if each.finish_reason} == {
        "a": FinishReason.ERROR,
        "c": FinishReason.LENGTH,
        "d": FinishReason.LENGTH,
    }
    assert last.output_token_ids == expected_output(prompt, 9)


def test_what_followed_a_step_that_failed_is_computed_before_anybody_can_leave() -> None:
    engine, _ = make_engine(poison={"a": 21})
    add(engine, make_sequence("a", 20, 9))
    engine.step()
    engine.step()
    prompt = [5] * 40
    add(engine, make_sequence("b", prompt, 9))
    ends = {output.request_id: output.finish_reason for output in engine.step()}
    assert ends == {"a": FinishReason.ERROR, "b": None}
    engine.abort("b")
    add(engine, last := make_sequence("c", prompt, 9))
    run(engine)
    assert (last.num_cached_tokens, last.output_token_ids) == (32, expected_output(prompt, 9))


def test_a_request_that_needs_the_host_is_waited_for_only_as_long_as_it_is_there() -> None:
    engine, runner = make_engine(hosts=frozenset({"a"}))
    add(engine, make_sequence("a", 20, 5), make_sequence("b", [5] * 20, 15))
    run(engine)
    followers = [any(item.follows is not None for item in batch.items) for batch in runner.batches]
    assert followers == [False] * 6 + [True] * 9


@pytest.mark.parametrize("refuses", [True, False])
def test_a_step_that_fails_under_way_costs_only_whoever_is_at_fault(refuses: bool) -> None:
    engine, runner = make_engine(poison={"3": 25}, refuses=refuses)
    sequences = [make_sequence(str(index), [index + 1] * 20, 12) for index in range(7)]
    add(engine, *sequences)
    run(engine)
    for index, sequence in enumerate(sequences):
        count = 6 if index == 3 else 12
        assert sequence.finish_reason is (FinishReason.ERROR if index == 3 else FinishReason.LENGTH)
        assert sequence.output_token_ids == expected_output([index + 1] * 20, count)
    assert engine.stats().kv_blocks_used == 0
    assert any(item.follows is not None for item in runner.batches[-1].items), "it runs ahead again"


def test_a_step_takes_the_time_between_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device takes one second a step, and the host none."""
    now = 0.0

    class Timed(AheadFake):
        done = 0.0

        def launch(self, batch: ScheduledBatch) -> FakeStep:
            step = super().launch(batch)
            step.done = self.done = max(now, self.done) + 1.0
            return step

        def drain(self, last: FakeStep | None = None) -> None:
            nonlocal now
            if last is not None:
                now = max(now, last.done)
            super().drain(last)

    runner = Timed(64)
    engine = Engine(runner, make_scheduler(64), Pace(5.0))
    monkeypatch.setattr("native_engine.engine.time.perf_counter", lambda: now)
    add(engine, make_sequence("a", 20, 10))
    run(engine)
    assert (now, engine.steps) == (10.0, 10)
    lines = "\n".join(engine.step_times.lines("seconds", ""))
    assert 'le="0.75"} 0' in lines
    assert 'le="1.0"} 10' in lines


def test_a_loop_that_shuts_down_sees_through_what_is_under_way() -> None:
    engine, _ = make_engine()
    outputs: list[SequenceOutput] = []
    loop = EngineLoop(engine, outputs.extend)
    loop.start()
    for name in ("a", "b"):
        loop.submit(make_sequence(name, prompt_that_ends(9), 40, eos=ENDS))
    loop.shutdown()
    assert [output.finish_reason for output in outputs if output.finish_reason] == [FinishReason.STOP] * 2
    assert not engine.has_work
    assert engine.stats().kv_blocks_used == 0
