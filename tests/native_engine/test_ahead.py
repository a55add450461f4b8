"""Steps planned while the one before is under way: no answer changes, nothing is lost, nothing is used too early."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.batch import UNKNOWN
from native_engine.engine import Engine, SequenceOutput
from native_engine.request import FinishReason, Sequence
from native_engine.scheduler import Scheduler
from tests.native_engine.ahead_runner import AheadFake
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

    def check_end(self) -> None:
        assert self.engine.stats().kv_blocks_used == 0
        for sequence in self.sequences:
            told = [output for output in self.outputs if output.request_id == sequence.request_id]
            assert [bool(output.finish_reason) for output in told] == [False] * (len(told) - 1) + [True]
            assert told[-1].finish_reason is sequence.finish_reason
            tokens = [token for output in told for token in output.new_token_ids]
            prompt = sequence.token_ids[: sequence.num_prompt_tokens]
            assert tokens == sequence.output_token_ids == expected_output(prompt, len(tokens), ENDS)


@settings(max_examples=300, deadline=None)
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
