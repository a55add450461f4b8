"""The step that a GPU's memory is measured with, on a stand-in that has room for so many rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from kernels.native.program import StepArrays
from native_engine.device_profile import fill_decodes, fill_prompts, largest_step, room_for_weights
from native_engine.sizing import ConfigurationError


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 24 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 22 * 2**30)


def room_for(rows: int) -> Callable[[int], None]:
    def run(count: int) -> None:
        if count > rows:
            raise torch.OutOfMemoryError

    return run


def test_a_step_that_does_not_fit_is_refused_with_the_largest_half_that_does() -> None:
    largest_step(room_for(8192), 8192, 256)
    with pytest.raises(ConfigurationError, match=r"step of 8192 tokens .* --max-num-batched-tokens to at most 2048"):
        largest_step(room_for(3000), 8192, 256)
    with pytest.raises(ConfigurationError, match="fewer --max-num-seqs"):
        largest_step(room_for(100), 8192, 256)


def test_weights_that_do_not_fit_are_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match="22528 of 24576 MiB are filled with them, 1024 are free"):  # noqa: SIM117
        with room_for_weights():
            raise torch.OutOfMemoryError


@pytest.mark.parametrize(("rows", "longest", "sequences"), [(64, 20, 4), (64, 100, 1), (64, 4, 8)])
def test_the_largest_step_has_all_rows_in_prompts_as_long_as_may_be(rows: int, longest: int, sequences: int) -> None:
    step = StepArrays(64, 8, 4, 10)
    fill_prompts(step, rows, longest, vocabulary=50)
    starts = step.query_starts[: step.struct.num_sequences + 1].tolist()
    assert (starts[0], starts[-1], step.struct.num_sequences) == (0, rows, sequences)
    assert max(b - a for a, b in pairwise(starts)) >= min(longest, rows)
    assert step.struct.num_sampled == 10
    assert step.positions[:rows].max() < longest
    assert (step.slots[:rows] == -1).all()
    fill_decodes(step, vocabulary=50)
    assert (step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled) == (8, 8, 8)
