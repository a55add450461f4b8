"""What Triton kernels share."""

from __future__ import annotations

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels import device_math  # noqa: E402
from kernels.device import interpreting  # noqa: E402

DEVICE = "cpu" if interpreting() else "cuda"


@triton.jit
def _dot(a_ptr, b_ptr, y_ptr):
    square = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    acc = tl.full([16, 16], 1, y_ptr.dtype.element_ty)
    tl.store(y_ptr + square, device_math.dot(tl.load(a_ptr + square), tl.load(b_ptr + square), acc))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
def test_a_dot_multiplies_numbers_of_every_type_and_adds_them_to_acc(dtype: torch.dtype) -> None:
    a, b = (torch.randint(-9, 9, (16, 16), device=DEVICE).to(dtype) for _ in range(2))
    y = torch.empty(16, 16, dtype=torch.int32 if dtype == torch.int8 else torch.float32, device=DEVICE)
    _dot[(1,)](a, b, y)
    assert torch.equal(y.double(), a.double() @ b.double() + 1)


@triton.jit
def _tanh(x_ptr, y_ptr, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(y_ptr + place, device_math.tanh(tl.load(x_ptr + place)))


def test_tanh_is_that_of_torch_from_end_to_end() -> None:
    x = torch.cat([torch.linspace(-9, 9, 126), torch.tensor([-1e30, 1e30])]).to(DEVICE)
    y = torch.empty_like(x)
    _tanh[(1,)](x, y, SIZE=128)
    assert (y - x.tanh()).abs().max() < 5e-7


@triton.jit
def _from_e4m3(codes_ptr, y_ptr):
    place = tl.arange(0, 256)
    tl.store(y_ptr + place, device_math.from_e4m3(tl.load(codes_ptr + place)))


def test_bytes_of_fp8_are_read_exactly() -> None:
    codes = torch.arange(256, device=DEVICE).to(torch.uint8)
    y = torch.empty(256, dtype=torch.float16, device=DEVICE)
    _from_e4m3[(1,)](codes, y)
    expected = codes.view(torch.float8_e4m3fn).half()
    assert torch.equal(y[~expected.isnan()], expected[~expected.isnan()])
    assert expected.isnan().nonzero().flatten().tolist() == [127, 255]
