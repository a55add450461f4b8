"""The most likely token on a GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.argmax import reference
from kernels.argmax.triton_kernel import BLOCK, argmax
from tests.kernels.triton.shapes import TOLERANCE, on, random


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 3), st.sampled_from([1, 100, BLOCK, 3 * BLOCK + 5]), st.sampled_from(list(TOLERANCE)))
def test_each_row_gives_the_place_of_its_largest_value(
    device: torch.device, rows: int, width: int, dtype: torch.dtype
) -> None:
    x = random(width, rows, width, dtype=dtype)
    tokens = argmax(on(device, x))
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == reference.argmax(x).tolist()


@pytest.mark.parametrize("places", [(BLOCK + 3, BLOCK + 9, 2 * BLOCK), (7, 5, BLOCK)])
def test_the_first_of_the_largest_wins_within_a_block_and_across_blocks(
    device: torch.device, places: tuple[int, ...]
) -> None:
    x = -random(1, 1, 2 * BLOCK + 20).abs() - 1  # less than what stands past the end of a block
    x[0, list(places)] = -0.5
    assert argmax(on(device, x)).tolist() == [min(places)]


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK, BLOCK + 99])
def test_a_row_that_is_not_finite_gives_minus_one_alone(device: torch.device, value: float, place: int) -> None:
    x = random(1, 3, BLOCK + 100)
    x[1, place] = value
    best = reference.argmax(x)
    assert argmax(on(device, x)).tolist() == [int(best[0]), -1, int(best[2])]
