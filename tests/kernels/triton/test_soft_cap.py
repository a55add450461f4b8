"""The soft cap on a GPU."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.soft_cap import reference
from kernels.soft_cap.triton_kernel import BLOCK, soft_cap
from tests.kernels.triton.shapes import TOLERANCE, assert_near, on, random


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 3),
    st.sampled_from([1, 100, BLOCK, BLOCK + 7]),
    st.sampled_from(list(TOLERANCE)),
    st.sampled_from([1.0, 30.0]),
)
def test_every_value_is_capped_as_the_reference_does(
    device: torch.device, rows: int, width: int, dtype: torch.dtype, cap: float
) -> None:
    x = (40 * random(1, rows, width)).to(dtype)
    y = soft_cap(on(device, x), cap)
    assert y.tensor.dtype == dtype
    assert_near(y, reference.soft_cap(x.float(), cap))


def test_what_is_not_finite_is_not_hidden_unless_it_has_a_cap(device: torch.device) -> None:
    y = soft_cap(on(device, torch.tensor([[torch.inf, -torch.inf, torch.nan]])), 30.0).tensor
    assert y[0, :2].tolist() == [30.0, -30.0]
    assert y[0, 2].isnan()
