"""What rank 0 sends the others, and what becomes of a step in which a rank is lost. No second process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from kernels.native.program import StepArrays
from native_engine.batch import RunnerLost
from native_engine.host_tier import Copy
from native_engine.parallel import following
from native_engine.parallel.following import Numbers, follow, send_copies, send_stop, together
from native_engine.parallel.group import ALONE, Group

LEAD, OTHER = Group(0, 2), Group(1, 2)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Numbers]]:
    """Broadcasts of rank 0, in the order in which the others get them."""
    sent: list[Numbers] = []

    def broadcast(group: Group, numbers: Numbers) -> None:
        if group.rank == 0:
            sent.append(numbers.copy())
        else:
            numbers[:] = sent.pop(0)

    monkeypatch.setattr(following, "_broadcast", broadcast)
    yield sent
    assert not sent


class Recorder:
    """A follower that notes what it was told."""

    def __init__(self, step: StepArrays) -> None:
        self.step = step
        self.copies: list[Copy] = []
        self.steps: list[tuple[int, int, int]] = []

    def copy(self, copies: list[Copy]) -> None:
        self.copies += copies

    def follow(self) -> None:
        struct = self.step.struct
        self.steps.append((struct.num_rows, struct.num_sequences, struct.num_sampled))


def described(rows: int, sequences: int, sampled: int) -> StepArrays:
    random = np.random.default_rng(rows)
    step = StepArrays(4096, 8, 300)
    step.memory[:] = random.integers(0, 2**31 - 1, len(step.memory))
    step.positions[:rows] = random.integers(0, 300 * 16, rows)
    step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled = rows, sequences, sampled
    return step


@pytest.mark.parametrize(("rows", "sequences", "sampled"), [(1, 1, 0), (8, 8, 8), (4000, 8, 3)])
def test_the_others_have_of_a_step_all_that_it_uses(
    wire: list[Numbers], rows: int, sequences: int, sampled: int
) -> None:
    step, other = described(rows, sequences, sampled), Recorder(StepArrays(4096, 8, 300))
    with together(LEAD, step):
        pass
    send_stop(LEAD)
    follow(OTHER, other)
    assert other.steps == [(rows, sequences, sampled)]
    for name, count in (
        ("token_ids", rows),
        ("positions", rows),
        ("slots", rows),
        ("query_starts", sequences + 1),
        ("sample_rows", sampled),
    ):
        assert np.array_equal(getattr(other.step, name)[:count], getattr(step, name)[:count]), name
    blocks = step.positions[:rows].max() // 16 + 1
    assert np.array_equal(other.step.block_tables[:sequences, :blocks], step.block_tables[:sequences, :blocks])


def test_copies_are_made_by_the_others_too_in_their_order(wire: list[Numbers]) -> None:
    copies, other = [Copy(3, 7, True), Copy(3, 2, False)], Recorder(StepArrays(1, 1, 1))
    send_copies(LEAD, copies)
    send_copies(OTHER, copies)  # as the others make them
    send_stop(LEAD)
    follow(OTHER, other)
    assert other.copies == copies


@pytest.mark.parametrize("fault", [RuntimeError("Connection reset by peer"), MemoryError()])
def test_whatever_goes_wrong_within_a_shared_step_loses_the_runner(wire: list[Numbers], fault: Exception) -> None:
    with pytest.raises(RunnerLost), together(LEAD, described(1, 1, 1)):
        raise fault
    wire.clear()


def test_alone_nothing_is_sent_and_a_fault_is_the_batchs_own(wire: list[Numbers]) -> None:
    with pytest.raises(MemoryError), together(ALONE, described(1, 1, 1)):
        raise MemoryError
    send_copies(ALONE, [Copy(0, 0, True)])


def test_a_group_of_one_gives_back_what_it_gets() -> None:
    x = torch.ones(2, 3)
    assert ALONE.sum(x) is x
    assert ALONE.join(x, 2) is x
    assert ALONE.once(x) is x
    assert ALONE.smallest(5) == 5
    assert Group(1, 2).once(x) is None
