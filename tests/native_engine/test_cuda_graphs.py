"""Which recorded step a batch runs in, and what fills it up; recorded by a stand-in that only calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.device import DeviceTensor
from kernels.native.program import StepArrays
from native_engine.cuda_graphs import DecodeGraphs, graph_sizes, pad


def decodes(count: int, most: int = 64) -> StepArrays:
    step = StepArrays(most, most, 4)
    for array in (step.token_ids, step.positions, step.slots, step.block_tables):
        array[:] = 7  # of an earlier step
    step.query_starts[: count + 1] = range(count + 1)
    step.sample_rows[:count] = range(count)
    step.struct.num_rows = step.struct.num_sequences = step.struct.num_sampled = count
    return step


def graphs(sizes: list[int]) -> DecodeGraphs:
    return DecodeGraphs(sizes, lambda size: lambda: DeviceTensor(torch.full((size,), size)))


@given(most=st.integers(1, 2000))
def test_sizes_reach_the_most_and_pad_a_batch_by_less_than_8_or_a_quarter(most: int) -> None:
    sizes = graph_sizes(most)
    assert sizes[-1] == most
    assert len(sizes) <= 50
    for below, size in zip([0, *sizes], sizes, strict=False):
        assert size - (below + 1) <= max(7, (below + 1) // 4)


def test_the_sizes_of_256_sequences_are_few() -> None:
    assert graph_sizes(256)[:6] == [1, 2, 4, 8, 16, 24]
    assert len(graph_sizes(256)) == 19


def test_the_largest_is_recorded_first() -> None:
    order: list[int] = []

    def record(size: int) -> object:
        order.append(size)
        return lambda: DeviceTensor(torch.empty(0))

    DecodeGraphs([1, 8, 4], record)  # type: ignore[arg-type]
    assert order == [8, 4, 1]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, None)])
def test_a_step_runs_in_the_next_larger_graph(count: int, size: int | None) -> None:
    recorded = graphs([1, 2, 4, 8])
    assert recorded.size_for(decodes(count)) == size
    if size is not None:
        assert recorded.replay(size).tensor.tolist() == [size] * size


def test_a_step_with_a_prompt_a_draft_or_a_row_that_is_not_sampled_is_not_recorded() -> None:
    for name in ("num_sequences", "num_sampled"):
        step = decodes(4)
        setattr(step.struct, name, 3)
        assert graphs([1, 2, 4, 8]).size_for(step) is None


def test_what_fills_a_step_up_is_written_nowhere_and_leaves_the_others_as_they_are() -> None:
    step = decodes(3)
    pad(step, 5)
    assert (step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled) == (5, 5, 5)
    assert step.slots[:6].tolist() == [7, 7, 7, -1, -1, 7]
    assert step.positions[:6].tolist() == [7, 7, 7, 0, 0, 7]
    assert step.token_ids[:6].tolist() == [7, 7, 7, 0, 0, 7]
    assert np.array_equal(step.block_tables[2:6, 0], [7, 0, 0, 7])
    assert step.query_starts[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert step.sample_rows[:5].tolist() == [0, 1, 2, 3, 4]
