from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.batch import RunnerLost, ScheduledBatch
from native_engine.config import EngineConfig
from native_engine.engine import Engine, EngineLoop, EngineStopped, SequenceOutput
from native_engine.request import FinishReason, SamplingParams, Sequence
from native_engine.sampling.sampler import Sampler
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler, make_sequence
from tests.native_engine.noise_runner import NoiseRunner


class GatedRunner(FakeRunner):
    """Computes a step only when let through, and fails on demand."""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.gate = threading.Event()
        self.gate.set()
        self.inside = threading.Event()
        self.fail_next = False

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.inside.set()
        assert self.gate.wait(10)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("out of luck")
        return super().execute(batch)


class Receiver:
    """Collects what the loop delivers and waits for what a test expects."""

    def __init__(self) -> None:
        self.deliveries: list[list[SequenceOutput]] = []
        self.changed = threading.Condition()

    def __call__(self, outputs: list[SequenceOutput]) -> None:
        with self.changed:
            self.deliveries.append(outputs)
            self.changed.notify_all()

    def tokens(self, request_id: str) -> list[int]:
        return [token for output in self.of(request_id) for token in output.new_token_ids]

    def of(self, request_id: str) -> list[SequenceOutput]:
        return [output for outputs in self.deliveries for output in outputs if output.request_id == request_id]

    def ends(self, request_id: str) -> list[FinishReason]:
        return [output.finish_reason for output in self.of(request_id) if output.finish_reason is not None]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 10), self.deliveries


class Rig:
    def __init__(self) -> None:
        self.runner = GatedRunner(64)
        self.engine = Engine(self.runner, make_scheduler(64))
        self.receiver = Receiver()
        self.loop = EngineLoop(self.engine, self.receiver)

    @property
    def blocks_used(self) -> int:
        return self.engine.stats().kv_blocks_used


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    rig.loop.start()
    yield rig
    rig.runner.gate.set()
    rig.loop.shutdown(0)


def test_a_step_brings_each_running_request_one_token() -> None:
    engine = Engine(FakeRunner(64), make_scheduler(64))
    engine.add(make_sequence("a", 20, 3))
    engine.add(make_sequence("b", [9] * 20, 3))
    outputs = engine.step()
    assert [(output.request_id, len(output.new_token_ids)) for output in outputs] == [("a", 1), ("b", 1)]
    assert (outputs[0].num_prompt_tokens, outputs[0].num_cached_tokens, outputs[0].finish_reason) == (20, 0, None)


def test_a_step_without_work_does_not_run_the_model() -> None:
    runner = FakeRunner(64)
    engine = Engine(runner, make_scheduler(64))
    assert engine.step() == []
    assert (runner.batches, engine.stats().steps) == ([], 0)


def test_an_engine_takes_its_limits_from_config_and_runner() -> None:
    engine = Engine.create(FakeRunner(10, max_model_len=100), EngineConfig(model="m", enable_prefix_caching=False))
    assert engine.scheduler.max_total_tokens == 100
    assert (engine.scheduler.max_num_seqs, engine.scheduler.max_num_batched_tokens) == (64, 512)
    assert engine.stats().kv_blocks_total == 10
    assert not engine.scheduler.blocks.enable_prefix_caching


def test_stats_count_tokens_and_cache_hits() -> None:
    engine = Engine(FakeRunner(64), make_scheduler(64))
    for request_id in ("a", "b"):
        engine.add(make_sequence(request_id, 40, 5))
        while engine.scheduler.has_work:
            engine.step()
    stats = engine.stats()
    assert (stats.prompt_tokens_total, stats.generation_tokens_total) == (80, 10)
    assert (stats.prefix_cache_queries, stats.prefix_cache_hits) == (80, 32)
    assert (stats.waiting, stats.running, stats.kv_blocks_used, stats.steps) == (0, 0, 0, 10)


def test_a_failed_step_ends_its_own_requests_only(caplog: pytest.LogCaptureFixture) -> None:
    runner = GatedRunner(64)
    engine = Engine(runner, make_scheduler(64, max_num_seqs=1))
    engine.add(make_sequence("a", 20, 3))
    engine.add(waiting := make_sequence("b", 20, 3))
    runner.fail_next = True
    with caplog.at_level(logging.ERROR):
        (output,) = engine.step()
    assert (output.request_id, output.new_token_ids, output.finish_reason) == ("a", [], FinishReason.ERROR)
    assert "out of luck" in caplog.text
    while engine.scheduler.has_work:
        engine.step()
    assert waiting.output_token_ids == expected_output(waiting.token_ids[:20], 3)
    assert waiting.num_cached_tokens == 0
    assert engine.stats().kv_blocks_used == 0


class PoisonedRunner(FakeRunner):
    """Cannot compute a batch in which one of these requests has come to the position given."""

    def __init__(self, num_blocks: int, poison: dict[str, int]) -> None:
        super().__init__(num_blocks)
        self.poison = poison

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        for item in batch.items:
            at = self.poison.get(item.sequence.request_id, 10**6)
            if item.sequence.num_computed_tokens + item.num_new_tokens > at:
                self.store(ScheduledBatch(batch.items[: batch.items.index(item)]))
                raise RuntimeError("poison")
        return super().execute(batch)


@pytest.mark.parametrize("at", [0, 10, 25])
def test_of_a_step_that_fails_only_whoever_is_at_fault_ends(at: int, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(PoisonedRunner(64, {"3": at}), make_scheduler(64, max_num_batched_tokens=512))
    sequences = [make_sequence(str(index), [index + 1] * 20, 12) for index in range(7)]
    for sequence in sequences:
        engine.add(sequence)
    outputs = []
    while engine.scheduler.has_work:
        outputs += engine.step()
    ends = {output.request_id: output.finish_reason for output in outputs if output.finish_reason}
    assert ends == {str(index): FinishReason.ERROR if index == 3 else FinishReason.LENGTH for index in range(7)}
    for sequence in sequences:
        told = [
            token for output in outputs if output.request_id == sequence.request_id for token in output.new_token_ids
        ]
        assert told == sequence.output_token_ids == expected_output(sequence.token_ids[:20], len(told))
    assert "3 cannot be computed" in caplog.text
    assert engine.stats().kv_blocks_used == 0


def test_whoever_was_to_read_what_was_never_written_begins_anew() -> None:
    engine = Engine(PoisonedRunner(64, {"0": 30}), make_scheduler(64, max_num_batched_tokens=512))
    sequences = [make_sequence(str(index), 70, 8) for index in range(3)]
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        engine.step()
        assert engine.scheduler.blocks.check_integrity(engine.scheduler.running) == []
    assert [sequence.finish_reason for sequence in sequences] == [FinishReason.ERROR, *[FinishReason.LENGTH] * 2]
    assert all(sequence.output_token_ids == expected_output(sequence.token_ids[:70], 8) for sequence in sequences[1:])


def test_what_a_reader_would_have_written_is_not_found_later() -> None:
    engine = Engine(PoisonedRunner(64, {"0": 30}), make_scheduler(64, max_num_batched_tokens=512))
    prompt = [1] * 40 + [2] * 40
    engine.add(make_sequence("0", [1] * 40))
    for request_id in ("1", "2"):
        engine.add(sequence := make_sequence(request_id, prompt))
        while sequence.finish_reason is None:
            engine.step()
        assert sequence.output_token_ids == expected_output(prompt, 8)
    assert sequence.num_cached_tokens == 64


@settings(max_examples=80, deadline=None)
@given(
    poison=st.dictionaries(st.sampled_from("012345"), st.integers(0, 60), max_size=3),
    shared=st.integers(0, 40),
    num_blocks=st.integers(6, 20),
    budget=st.integers(6, 100),
)
def test_poison_anywhere_ends_nobody_else(poison: dict[str, int], shared: int, num_blocks: int, budget: int) -> None:
    scheduler = make_scheduler(num_blocks, max_num_seqs=6, max_num_batched_tokens=budget)
    engine = Engine(PoisonedRunner(num_blocks, poison), scheduler)
    sequences = [make_sequence(str(index), [1] * shared + [index % 3] * 10, 15) for index in range(6)]
    prompts = [list(sequence.token_ids) for sequence in sequences]
    for sequence in sequences:
        engine.add(sequence)
    outputs = []
    while scheduler.has_work:
        outputs += engine.step()
        assert scheduler.blocks.check_integrity(scheduler.running) == []
    ends = [output.request_id for output in outputs if output.finish_reason]
    assert sorted(ends) == sorted("012345")
    for sequence, prompt in zip(sequences, prompts, strict=True):
        hit = poison.get(sequence.request_id, 10**6) < shared + 10 + 14
        assert (sequence.finish_reason is FinishReason.ERROR) == hit
        assert sequence.output_token_ids == expected_output(prompt, sequence.num_output_tokens)
        assert hit or sequence.num_output_tokens == 15
    assert scheduler.blocks.num_used == 0


class SlowMask:
    """A constraint whose mask is made when the test says so, and which allows everything."""

    def __init__(self) -> None:
        self.ready = False

    def allowed(self) -> bytes | None:
        self.ready = True  # whoever asks has waited
        return b"\xff" * 8

    def push(self, token: int) -> None:
        self.ready = False


class SamplingRunner(FakeRunner):
    """Lets the real sampler choose the token that the fake one would."""

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        wanted = [tokens[0] for tokens in super().execute(batch)]
        rows = torch.zeros(len(wanted), 64)
        rows[range(len(wanted)), wanted] = 9.0
        return Sampler().sample(rows, wanted, batch.items)


def held_pair() -> tuple[Engine, Sequence, Sequence, SlowMask]:
    engine = Engine(SamplingRunner(64), make_scheduler(64))
    free, slow, mask = make_sequence("free", 20, 6), make_sequence("slow", [9] * 15, 6), SlowMask()
    free.params = slow.params = SamplingParams(max_tokens=6, temperature=0.0)
    slow.constraint = mask
    engine.add(free)
    engine.add(slow)
    return engine, free, slow, mask


def test_a_slow_mask_holds_nobody_else_up() -> None:
    engine, free, slow, mask = held_pair()
    steps = [[output.request_id for output in engine.step()] for _ in range(3)]
    assert steps == [["free"]] * 3
    assert engine.runner.batches[-1].items[0].sequence is free  # type: ignore[attr-defined]
    assert len(engine.runner.batches[-1].items) == 1, "what is waited for is not computed again and again"  # type: ignore[attr-defined]
    mask.ready = True
    assert {output.request_id for output in engine.step()} == {"free", "slow"}
    while engine.scheduler.has_work:
        engine.step()
    for sequence in (free, slow):
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        assert sequence.output_token_ids == expected_output(prompt, 6)


def test_where_nobody_else_gets_on_the_mask_is_waited_for() -> None:
    engine, free, slow, _ = held_pair()
    engine.abort("free")
    for _ in range(20):
        assert engine.scheduler.has_work == (slow.finish_reason is None)
        engine.step()
    assert slow.output_token_ids == expected_output([9] * 15, 6)
    assert free.num_output_tokens == 0


def test_a_held_request_can_be_aborted() -> None:
    engine, _, slow, mask = held_pair()
    engine.step()
    engine.step()
    assert slow.is_held
    assert [output.finish_reason for output in engine.abort("slow")] == [FinishReason.ABORT]
    assert engine.scheduler.blocks.check_integrity(engine.scheduler.running) == []
    assert mask.ready is False


def test_logits_that_are_no_numbers_end_with_an_error_and_without_a_token() -> None:
    class Broken(FakeRunner):
        def execute(self, batch: ScheduledBatch) -> list[list[int]]:
            return [[-1] for _ in super().execute(batch)]

    engine = Engine(Broken(64), make_scheduler(64))
    engine.add(make_sequence("a"))
    (output,) = engine.step()
    assert (output.new_token_ids, output.finish_reason) == ([], FinishReason.ERROR)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("after", [0, 3])
def test_a_request_whose_logits_are_no_numbers_ends_and_the_others_never_notice(temperature: float, after: int) -> None:
    """Also with the log probabilities of its prompt and of its tokens, which nobody can compute."""
    params = SamplingParams(max_tokens=8, temperature=temperature, seed=3, logprobs=2, prompt_logprobs=1)

    def outputs(spoiled: set[str]) -> tuple[list[list[int]], list[FinishReason | None]]:
        runner = NoiseRunner(64, 40)
        engine = Engine(runner, make_scheduler(64))
        sequences = [Sequence(name, [n + 1] * 20, params) for n, name in enumerate("abc")]
        for sequence in sequences:
            engine.add(sequence)
        for step in range(20):
            runner.spoiled = spoiled if step >= after else set()
            engine.step()
        assert engine.stats().kv_blocks_used == 0
        return [each.output_token_ids for each in sequences], [each.finish_reason for each in sequences]

    calm, _ = outputs(set())
    spoiled, reasons = outputs({"b"})
    assert spoiled == [calm[0], calm[1][:after], calm[2]]
    assert reasons == [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.LENGTH]


def test_the_loop_streams_every_token_and_one_end(rig: Rig) -> None:
    sequences = [make_sequence(f"{index}", [index + 1] * 20, 10) for index in range(5)]
    for sequence in sequences:
        rig.loop.submit(sequence)
    rig.receiver.wait_for(lambda: all(rig.receiver.ends(str(index)) for index in range(5)))
    for index in range(5):
        assert rig.receiver.tokens(str(index)) == expected_output([index + 1] * 20, 10)
        assert rig.receiver.ends(str(index)) == [FinishReason.LENGTH]


def test_what_a_step_brought_is_delivered_together(rig: Rig) -> None:
    rig.runner.gate.clear()
    rig.loop.submit(make_sequence("first", 5, 2))
    assert rig.runner.inside.wait(10)
    for index in range(3):
        rig.loop.submit(make_sequence(f"{index}", [index + 1] * 5, 10))
    rig.runner.gate.set()
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("2")))
    assert {output.request_id for output in rig.receiver.deliveries[1]} == {"first", "0", "1", "2"}


def test_a_request_that_cannot_run_is_refused_where_it_is_submitted(rig: Rig) -> None:
    with pytest.raises(ValueError, match="has 5000 tokens"):
        rig.loop.submit(make_sequence("a", 5000))
    rig.runner.gate.clear()
    rig.loop.submit(make_sequence("b"))
    with pytest.raises(ValueError, match="'b' is in use"):
        rig.loop.submit(make_sequence("b"))


@pytest.mark.parametrize("state", ["submitted", "waiting", "running"])
def test_abort_frees_within_one_step_and_says_so_once(rig: Rig, state: str) -> None:
    rig.engine.scheduler.max_num_seqs = 2 if state == "running" else 1
    rig.runner.gate.clear()
    rig.loop.submit(make_sequence("other", 5, 4))
    assert rig.runner.inside.wait(10)
    rig.loop.submit(make_sequence("a", 100, 1000))
    if state != "submitted":
        rig.runner.gate.set()
        rig.receiver.wait_for(lambda: len(rig.receiver.deliveries) >= 2)
    rig.loop.abort("a")
    rig.loop.abort("a")
    rig.runner.gate.set()
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a") and rig.receiver.ends("other")))
    rig.loop.abort("a")
    assert rig.receiver.ends("a") == [FinishReason.ABORT]
    assert rig.receiver.tokens("other") == expected_output([1, 2, 3, 4, 5], 4)
    assert rig.blocks_used == 0


def test_no_step_computes_an_aborted_request(rig: Rig) -> None:
    rig.runner.gate.clear()
    rig.loop.submit(make_sequence("a", 20, 1000))
    assert rig.runner.inside.wait(10)
    rig.loop.abort("a")
    rig.runner.gate.set()
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a")))
    assert len(rig.runner.batches) == 1


def test_abort_of_an_unknown_request_is_nothing(rig: Rig) -> None:
    rig.loop.abort("nobody")
    rig.loop.submit(make_sequence("a", 5, 1))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a")))
    assert len(rig.receiver.deliveries) == 1


def test_an_id_can_be_used_again_after_its_end(rig: Rig) -> None:
    for count in (1, 2):
        rig.loop.submit(make_sequence("a", 5, 1))
        rig.receiver.wait_for(lambda count=count: len(rig.receiver.ends("a")) == count)  # type: ignore[misc]


def test_the_loop_goes_on_after_a_failed_step(rig: Rig) -> None:
    rig.runner.fail_next = True
    rig.loop.submit(make_sequence("a", 5, 3))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a")))
    rig.loop.submit(make_sequence("b", 5, 3))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("b")))
    assert (rig.receiver.ends("a"), rig.receiver.ends("b")) == ([FinishReason.ERROR], [FinishReason.LENGTH])
    assert rig.loop.is_running


def test_a_failing_receiver_does_not_stop_the_loop() -> None:
    calls: list[int] = []

    def receive(outputs: list[SequenceOutput]) -> None:
        calls.append(len(outputs))
        raise RuntimeError("the receiver's own fault")

    loop = EngineLoop(Engine(FakeRunner(64), make_scheduler(64)), receive)
    loop.start()
    loop.submit(make_sequence("a", 5, 3))
    loop.shutdown(10)
    assert calls == [1, 1, 1]


def test_a_fault_of_the_scheduler_ends_every_request_and_the_loop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> ScheduledBatch:
        raise KeyError("a bug")

    monkeypatch.setattr(rig.engine.scheduler, "schedule", broken)
    rig.loop.submit(make_sequence("a", 5, 3))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a")))
    assert rig.receiver.ends("a") == [FinishReason.ERROR]
    with pytest.raises(EngineStopped):
        rig.loop.submit(make_sequence("b"))


def test_a_runner_that_is_lost_is_not_asked_again_and_every_request_ends(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[ScheduledBatch] = []

    def lost(batch: ScheduledBatch) -> list[list[int]]:
        calls.append(batch)
        raise RunnerLost("a rank died")

    monkeypatch.setattr(rig.runner, "execute", lost)
    rig.engine.add(make_sequence("a", 5, 3))
    rig.loop.submit(make_sequence("b", 5, 3))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("b")))
    assert rig.receiver.ends("b") == [FinishReason.ERROR]
    rig.loop.shutdown(10)
    assert [len(batch.items) for batch in calls] == [2]


def test_an_idle_loop_uses_no_time(rig: Rig) -> None:
    rig.loop.submit(make_sequence("a", 5, 1))
    rig.receiver.wait_for(lambda: bool(rig.receiver.ends("a")))
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_shutdown_lets_running_requests_finish(rig: Rig) -> None:
    rig.runner.gate.clear()
    rig.loop.submit(make_sequence("a", 5, 50))
    assert rig.runner.inside.wait(10)
    rig.runner.gate.set()
    rig.loop.shutdown(10)
    assert rig.receiver.ends("a") == [FinishReason.LENGTH]
    with pytest.raises(EngineStopped):
        rig.loop.submit(make_sequence("b"))


def test_shutdown_aborts_what_is_left_when_its_time_is_over(rig: Rig) -> None:
    rig.loop.submit(make_sequence("a", 5, 1_000))
    rig.loop.submit(make_sequence("b", [9] * 5, 1_000))
    rig.loop.shutdown(0)
    ends = rig.receiver.ends("a"), rig.receiver.ends("b")
    assert ends == ([FinishReason.ABORT], [FinishReason.ABORT])
    assert rig.blocks_used == 0


def test_shutdown_of_a_loop_that_was_never_started_returns() -> None:
    EngineLoop(Engine(FakeRunner(4), make_scheduler(4)), Receiver()).shutdown(0)


def test_who_waits_after_a_preemption_is_counted_until_it_runs_again() -> None:
    engine = Engine(FakeRunner(4), make_scheduler(num_blocks=4))
    for name in ("old", "new"):
        engine.add(make_sequence(name, 20, 40))
    seen = set()
    while engine.has_work:
        engine.step()
        stats = engine.stats()
        seen.add((stats.preemptions_total, stats.preempted))
        assert stats.preempted <= stats.waiting
    assert (0, 0) in seen
    assert (1, 1) in seen
    assert engine.stats().preempted == 0
