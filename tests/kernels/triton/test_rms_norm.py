"""The norm of a row on a GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import DeviceTensor
from kernels.rms_norm import reference
from kernels.rms_norm.triton_kernel import MAX_WIDTH, rms_norm
from tests.kernels.triton.shapes import TOLERANCE, assert_near, on, random


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 3), st.sampled_from([1, 48, 64, 100, 576]), st.sampled_from(list(TOLERANCE)), st.booleans())
def test_a_row_of_any_width_and_type_is_normalised_as_the_reference_does(
    device: torch.device, rows: int, width: int, dtype: torch.dtype, has_residual: bool
) -> None:
    x, residual = random(1, rows, width, dtype=dtype), random(2, rows, width, dtype=dtype) if has_residual else None
    weight = random(3, width)
    y = rms_norm(on(device, x), weight.to(device), 1e-3, None if residual is None else on(device, residual))
    assert y.tensor.dtype == dtype
    assert_near(y, reference.rms_norm(x.float(), weight, 1e-3, None if residual is None else residual.float()))


def test_the_widest_row_still_fits_and_one_more_is_refused(device: torch.device) -> None:
    x, weight = random(1, 1, MAX_WIDTH), random(2, MAX_WIDTH)
    assert_near(rms_norm(on(device, x), weight.to(device), 1e-6), reference.rms_norm(x, weight, 1e-6))
    with pytest.raises(ValueError, match="16385 numbers a row: the kernel holds at most 16384"):
        rms_norm(on(device, torch.zeros(1, MAX_WIDTH + 1)), weight.to(device), 1e-6)


def test_a_row_of_nan_does_not_reach_its_neighbours(device: torch.device) -> None:
    x, weight = random(1, 3, 100), torch.ones(100)
    x[1] = torch.nan
    y = rms_norm(DeviceTensor(x.to(device)), weight.to(device), 1e-6).tensor
    assert y.isnan().all(dim=1).tolist() == [False, True, False]
    assert_near(y[::2], reference.rms_norm(x[::2], weight, 1e-6))
