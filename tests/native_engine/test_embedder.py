from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine import embedder as module
from native_engine.config import EngineConfig
from native_engine.embedder import Embedder, Job, QueueFull, Turns, Vector, embed
from native_engine.engine import EngineStopped

CONFIG = EngineConfig(model="any", max_num_seqs=4, max_num_batched_tokens=16)
WAIT = 10


class Sums:
    """An input's vector is its length and its sum. With `gated` each batch waits for `gate`."""

    max_model_len = 32
    dimensions = 2
    normalizes = False

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.gated = False
        self.fails = False
        self.begun = threading.Semaphore(0)
        self.batches: list[list[list[int]]] = []

    def encode(self, inputs: list[list[int]]) -> Vector:
        self.batches.append(inputs)
        self.begun.release()
        if self.gated:
            assert self.gate.acquire(timeout=WAIT)
        if self.fails:
            raise RuntimeError("the arithmetic failed, as the test wanted")
        return np.array([[len(each), sum(each)] for each in inputs], np.float32)


class Asked(Job):
    """A job that can be waited for."""

    def __init__(self, *inputs: list[int]) -> None:
        self.ends = 0
        self.end = threading.Event()
        super().__init__(list(inputs), self._ended)

    def _ended(self) -> None:
        self.ends += 1
        self.end.set()

    def wait(self) -> str:
        assert self.end.wait(WAIT)
        return self.state


@pytest.fixture
def sums() -> Sums:
    return Sums()


@pytest.fixture
def embedder(sums: Sums) -> Iterator[Embedder]:
    made = Embedder(sums, CONFIG)
    made.start()
    yield made
    sums.gate.release(1000)
    made.shutdown(0)


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_every_input_is_in_one_batch_in_order_and_within_the_limits(
    lengths: list[list[int]], max_tokens: int, max_inputs: int
) -> None:
    turns = Turns(max_tokens, max_inputs)
    jobs = [Asked(*([number] * length for number, length in enumerate(each))) for each in lengths]
    for job in jobs:
        turns.add(job)
    taken: dict[int, list[list[int]]] = {id(job): [] for job in jobs}
    while batch := turns.take():
        assert len(batch) <= max_inputs
        assert len(batch) == 1 or sum(len(each) for _, each in batch) <= max_tokens
        for owner, each in batch:
            taken[id(owner)].append(each)
    assert all(taken[id(job)] == job.inputs for job in jobs)
    assert turns.num_inputs == 0


def test_a_small_request_does_not_wait_for_a_large_one() -> None:
    turns = Turns(100, 4)
    large, small = Asked(*[[1]] * 50), Asked([2])
    turns.add(large)
    turns.add(small)
    assert [job for job, _ in turns.take()] == [large, small, large, large]


def test_vectors_come_in_the_order_of_the_inputs() -> None:
    inputs = [[number] * (number % 7 + 1) for number in range(50)]
    found = embed(Sums(), CONFIG, inputs)
    assert found.tolist() == [[len(each), sum(each)] for each in inputs]


def test_requests_are_computed_together_and_end_once(embedder: Embedder, sums: Sums) -> None:
    sums.gated = True
    first, second, third = Asked([1]), Asked([2, 2], [3]), Asked([4])
    embedder.submit(first)
    assert sums.begun.acquire(timeout=WAIT)
    embedder.submit(second)
    embedder.submit(third)
    assert (embedder.stats().running, embedder.stats().waiting) == (1, 2)
    sums.gate.release(10)
    assert [first.wait(), second.wait(), third.wait()] == ["finished"] * 3
    assert sums.batches[1] == [[2, 2], [4], [3]]
    assert [vector.tolist() for vector in second.vectors] == [[2, 4], [1, 3]]
    assert (first.ends, second.ends, third.ends) == (1, 1, 1)
    assert (embedder.stats().inputs_total, embedder.stats().tokens_total, embedder.stats().running) == (4, 5, 0)


def test_an_aborted_request_is_in_no_further_batch(embedder: Embedder, sums: Sums) -> None:
    sums.gated = True
    job, other = Asked(*[[1] * 8] * 10), Asked([2])
    embedder.submit(job)
    assert sums.begun.acquire(timeout=WAIT)
    embedder.abort(job)
    embedder.abort(job)
    embedder.submit(other)
    sums.gate.release(10)
    assert (job.wait(), other.wait()) == ("aborted", "finished")
    assert (len(sums.batches), job.ends, job.num_tokens) == (2, 1, 16)


def test_a_batch_that_cannot_be_computed_takes_down_its_own_requests_only(embedder: Embedder, sums: Sums) -> None:
    sums.fails = True
    failing = Asked([1], [2])
    embedder.submit(failing)
    assert failing.wait() == "failed"
    sums.fails = False
    fine = Asked([1])
    embedder.submit(fine)
    assert (fine.wait(), failing.ends) == ("finished", 1)


def test_vectors_that_are_not_numbers_are_a_failure(embedder: Embedder) -> None:
    job = Asked([1])
    embedder.encoder.encode = lambda inputs: np.array([[np.nan, 1]], np.float32)  # type: ignore[method-assign]
    embedder.submit(job)
    assert job.wait() == "failed"


def test_the_queue_has_a_bound(embedder: Embedder, sums: Sums, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_INPUTS", 5)
    sums.gated = True
    embedder.submit(Asked([1]))
    assert sums.begun.acquire(timeout=WAIT)
    embedder.submit(Asked(*[[1]] * 4))
    with pytest.raises(QueueFull, match="4 inputs are waiting, and at most 5 may"):
        embedder.submit(Asked([1], [2]))
    last = Asked([1])
    embedder.submit(last)
    sums.gate.release(10)
    assert last.wait() == "finished"


def test_what_is_there_is_finished_before_the_end(embedder: Embedder) -> None:
    jobs = [Asked(*[[1]] * 20) for _ in range(5)]
    for job in jobs:
        embedder.submit(job)
    embedder.shutdown(WAIT)
    assert {job.wait() for job in jobs} == {"finished"}
    with pytest.raises(EngineStopped):
        embedder.submit(Asked([1]))


def test_what_takes_too_long_is_aborted_at_the_end(embedder: Embedder, sums: Sums) -> None:
    sums.gated = True
    job = Asked(*[[1]] * 20)
    embedder.submit(job)
    assert sums.begun.acquire(timeout=WAIT)
    threading.Timer(0.1, lambda: sums.gate.release(100)).start()
    embedder.shutdown(0)
    assert (job.state, job.ends, len(sums.batches)) == ("aborted", 1, 1)
