"""Gated activations on a GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.gated import reference
from kernels.gated.triton_kernel import BLOCK, gated
from tests.kernels.triton.shapes import TOLERANCE, assert_near, on, random

ACTIVATIONS = ["silu", "gelu_tanh", "clamped_silu"]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 3),
    st.sampled_from([1, 24, 100, BLOCK, BLOCK + 40]),
    st.sampled_from(list(TOLERANCE)),
    st.sampled_from(ACTIVATIONS),
)
def test_rows_of_any_width_and_type_are_gated_as_the_reference_does(
    device: torch.device, rows: int, width: int, dtype: torch.dtype, activation: str
) -> None:
    x = (8 * random(1, rows, 2 * width)).to(dtype)
    y = gated(on(device, x), activation)
    assert y.tensor.dtype == dtype
    assert_near(y, reference.gated(x.float(), activation))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("half", [0, 1])
def test_a_nan_stays_and_spreads_no_further(device: torch.device, activation: str, half: int) -> None:
    x = random(1, 3, 40)
    x[1, 20 * half + 3] = torch.nan
    nan = gated(on(device, x), activation).tensor.isnan().nonzero().tolist()
    assert nan == [[1, 3]]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_large_gates_open_or_close_and_do_not_overflow(device: torch.device, activation: str) -> None:
    x = torch.tensor([[1e4, -1e4, 50.0, -50.0, 1.0, 1.0, 1.0, 1.0]])
    assert_near(gated(on(device, x), activation), reference.gated(x, activation))
