"""Random requests, aborts and faults over small caches: what must hold of every schedule there is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.batch import ScheduledBatch
from native_engine.request import FinishReason, Sequence, Status
from native_engine.scheduler import MAX_YIELDS, Scheduler
from tests.native_engine.fake_runner import END, FakeRunner, expected_output, make_scheduler, make_sequence


@dataclass(frozen=True)
class Arrival:
    step: int
    prompt: tuple[int, ...]
    max_tokens: int | None
    abort_after: int | None
    salt: bytes
    priority: int = 0


@st.composite
def arrivals(draw: st.DrawFn, num_slots: int) -> Arrival:
    shared = draw(st.integers(0, num_slots // 2 - 1))
    own = draw(st.integers(1, min(num_slots // 2, 40)))
    return Arrival(
        step=draw(st.integers(0, 10)),
        prompt=(*[1] * shared, *[draw(st.integers(2, 4))] * own),
        max_tokens=draw(st.sampled_from([1, 7, 20, 40, 60, 80, None])),
        abort_after=draw(st.sampled_from([None, None, None, None, None, 0, 1, 5, 20])),
        salt=draw(st.sampled_from([b"", b"", b"tenant"])),
        priority=draw(st.sampled_from([0, 0, 1, 2])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Scheduler, list[Arrival], set[int]]:
    num_blocks = draw(st.integers(2, 10))
    max_num_seqs = draw(st.integers(1, 6))
    budget = draw(st.integers(max_num_seqs, 48))
    max_model_len = num_blocks * 16 + draw(st.integers(-10, 10))
    caching = draw(st.booleans())
    scheduler = make_scheduler(
        num_blocks,
        max_num_seqs,
        budget,
        max_model_len,
        caching=caching,
        num_host_blocks=draw(st.integers(0, 6)) if caching else 0,
        window=draw(st.sampled_from([None, None, 1, 15, 16, 17, 33, 70])),
    )
    requests = draw(st.lists(arrivals(min(max_model_len, num_blocks * 16) - 1), min_size=2, max_size=8))
    failing_step = draw(st.sampled_from([None, None, 0, 3, 10, 30]))
    return scheduler, requests, set() if failing_step is None else {failing_step}


class Simulation:
    """Plays one workload to its end and checks each step."""

    def __init__(self, scheduler: Scheduler, requests: list[Arrival], failing_steps: set[int]) -> None:
        self.scheduler = scheduler
        self.requests = requests
        self.failing_steps = failing_steps
        blocks = scheduler.blocks
        tier = blocks.host_tier
        self.runner = FakeRunner(
            blocks.num_blocks, num_host_blocks=tier.num_blocks if tier else 0, window=blocks.window
        )
        self.sequences: dict[int, Sequence] = {}
        self.order: list[str] = []
        self.ended: list[str] = []

    def run(self) -> None:
        step = 0
        last_event = max(request.step + (request.abort_after or 0) for request in self.requests)
        while step <= last_event or self.scheduler.has_work:
            self.play_clients(step)
            self.play_engine(step)
            step += 1
            assert step < 5000, "the schedule does not end"

    def play_clients(self, step: int) -> None:
        for index, request in enumerate(self.requests):
            if request.step == step:
                eos = frozenset({END})
                sequence = make_sequence(
                    str(index),
                    list(request.prompt),
                    request.max_tokens,
                    salt=request.salt,
                    eos=eos,
                    priority=request.priority,
                )
                self.scheduler.add(sequence)
                self.sequences[index] = sequence
                self.order.append(sequence.request_id)
            if request.abort_after is not None and step == request.step + request.abort_after:
                aborted = self.scheduler.abort(str(index))
                self.ended += [aborted.request_id] if aborted else []

    def play_engine(self, step: int) -> None:
        was_running = {sequence: sequence.num_yields for sequence in self.scheduler.running}
        batch = self.scheduler.schedule()
        self.runner.copy(self.scheduler.blocks.take_copies())
        self.check_order(was_running, batch)
        assert bool(batch.items) == self.scheduler.has_work, "there is work, but the step is empty"
        self.check_batch(batch)
        if step in self.failing_steps:
            advanced = self.scheduler.fail(batch)
        else:
            grown = self.scheduler.postprocess(batch, self.runner.execute(batch))
            assert all(count == (sequence.finish_reason is not FinishReason.ERROR) for sequence, count in grown)
            advanced = [sequence for sequence, _ in grown]
        self.ended += [sequence.request_id for sequence in advanced if sequence.status is Status.FINISHED]
        self.check_state()

    def check_batch(self, batch: ScheduledBatch) -> None:
        ids = [item.sequence.request_id for item in batch.items]
        assert len(set(ids)) == len(ids) <= self.scheduler.max_num_seqs
        assert batch.num_tokens == sum(item.num_new_tokens for item in batch.items)
        assert batch.num_tokens <= self.scheduler.max_num_batched_tokens
        for item in batch.items:
            end = item.sequence.num_computed_tokens + item.num_new_tokens
            assert item.num_new_tokens >= 1
            assert end <= item.sequence.num_tokens
            assert end <= len(item.sequence.block_table) * 16
        if batch.preempted:
            assert not {item.sequence.request_id for item in batch.items} & {s.request_id for s in batch.preempted}

    def check_order(self, was_running: dict[Sequence, int], batch: ScheduledBatch) -> None:
        let_in = [sequence for sequence in self.scheduler.running if sequence not in was_running]
        displaced = [each for each in batch.preempted if each.num_yields > was_running[each]]
        for sequence in let_in:
            left = [each for each in self.scheduler.waiting if each not in batch.preempted]
            assert all(each.priority >= sequence.priority or sequence.rank < each.rank for each in left)
        assert all(any(new.priority < old.priority for new in let_in) for old in displaced)
        assert all(each.num_yields <= MAX_YIELDS for each in self.scheduler.live)

    def check_state(self) -> None:
        scheduler = self.scheduler
        assert scheduler.blocks.check_integrity(scheduler.running) == []
        assert all(not sequence.block_table for sequence in scheduler.waiting)
        for priority in (0, 1, 2):
            in_order = [
                sequence.request_id
                for sequence in (*scheduler.running, *scheduler.waiting)
                if sequence.priority == priority
            ]
            live = [each for each in self.order if each in in_order]
            if in_order != live:  # only promotion and its protection change the order of equals
                assert any(sequence.num_yields == MAX_YIELDS for sequence in scheduler.running), "somebody overtook"

    def check_end(self) -> None:
        assert sorted(self.ended) == sorted(self.order), "each request must end exactly once"
        assert self.scheduler.blocks.num_free == self.scheduler.blocks.num_blocks
        assert not self.scheduler.running
        assert not self.scheduler.waiting
        for index, sequence in self.sequences.items():
            self.check_output(self.requests[index], sequence)

    def check_output(self, request: Arrival, sequence: Sequence) -> None:
        output = sequence.output_token_ids
        expected = expected_output(list(request.prompt), len(output), frozenset({END}))
        assert output == expected, (
            f"{sequence!r} differs from the run alone, after {sequence.num_preemptions} preemptions"
        )
        if sequence.finish_reason is FinishReason.STOP:
            assert output[-1] == END
        elif sequence.finish_reason is FinishReason.LENGTH:
            full = sequence.num_tokens == self.scheduler.max_total_tokens
            assert full or len(output) == request.max_tokens
        elif sequence.finish_reason is FinishReason.ERROR:
            assert self.failing_steps
        else:
            assert request.abort_after is not None


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(workload=workloads())
def test_every_schedule_keeps_every_invariant(workload: tuple[Scheduler, list[Arrival], set[int]]) -> None:
    simulation = Simulation(*workload)
    simulation.run()
    simulation.check_end()


@settings(max_examples=200, deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(1, 255), min_size=1, max_size=40), min_size=3, max_size=6),
    num_blocks=st.integers(5, 8),
)
def test_scarce_blocks_change_no_output(prompts: list[list[int]], num_blocks: int) -> None:
    requests = [Arrival(0, tuple(prompt), 40, None, b"") for prompt in prompts]
    simulation = Simulation(make_scheduler(num_blocks), requests, set())
    simulation.run()
    simulation.check_end()


@settings(max_examples=200, deadline=None)
@given(
    num_seqs=st.integers(1, 3),
    num_blocks=st.integers(4, 8),
    tokens=st.integers(1, 20),
    rushing=st.integers(1, 3),
)
def test_nobody_starves_under_a_rush_of_better_priority(
    num_seqs: int, num_blocks: int, tokens: int, rushing: int
) -> None:
    scheduler, runner = make_scheduler(num_blocks, num_seqs, 32), FakeRunner(num_blocks)
    batch_work = make_sequence("batch", 20, 20, priority=2)
    scheduler.add(batch_work)
    for step in range(3000):
        while len(scheduler.live) < 1 + num_seqs + rushing:
            scheduler.add(make_sequence(f"{step}-{len(scheduler.live)}", [step % 256, 7], tokens))
        batch = scheduler.schedule()
        scheduler.postprocess(batch, runner.execute(batch))
        if batch_work.status is Status.FINISHED:
            break
    assert batch_work.output_token_ids == expected_output(batch_work.token_ids[:20], 20)
    assert batch_work.num_yields <= MAX_YIELDS
