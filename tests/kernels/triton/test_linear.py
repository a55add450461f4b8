"""The product on a GPU against its reference, in every kind of weight and by every way that the launcher has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st

from kernels.device import DeviceTensor
from kernels.linear import JoinedDeviceWeight, linear, triton_kernel
from kernels.linear.device_formats import device_weight
from kernels.linear.device_weight import DeviceWeight
from kernels.linear.triton_kernel import Tile
from kernels.testing import assert_close
from tests.kernels.weights import raw_weight

TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
TYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
# Of each way to hold codes one, groups of each size, with and without offsets; and widths that are not whole spans.
KINDS = {
    "INT4": 96, "INT4_32": 160, "INT4_64": 192, "INT4_128": 256, "Q4_0": 96, "Q4_K": 256, "INT8": 100, "Q8_0": 160,
    "INT8_64": 192, "INT8_128": 128, "Q6_K": 256, "Q5_1": 96, "MXFP4": 64, "FP8_E4M3": 72, "FP8_E4M3_128": 256,
    "plain": 72,
}  # fmt: skip


def weight_of(kind: str, n: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor | DeviceWeight:
    if kind == "plain":
        return torch.randn(n, KINDS[kind], device=device).to(dtype)
    return device_weight(kind, raw_weight(kind, n, KINDS[kind]), KINDS[kind], device)


def check(
    x: torch.Tensor,
    weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> None:
    y = linear(DeviceTensor(x), weight, bias, None if residual is None else DeviceTensor(residual))
    assert isinstance(y, DeviceTensor)
    assert y.tensor.dtype == x.dtype
    plain = weight if isinstance(weight, torch.Tensor) else weight.dequantised()
    expected = x.double() @ plain.double().T
    for each in (bias, residual):
        expected = expected if each is None else expected + each.double()
    assert_close(y.tensor.float().cpu().numpy(), expected.float().cpu().numpy(), TOLERANCE[x.dtype])


def through(monkeypatch: pytest.MonkeyPatch, tile: Tile) -> None:
    monkeypatch.setattr(triton_kernel, "tiles_of", lambda *_: [tile])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", [1, 2])
def test_few_rows_meet_the_weights_as_they_are(
    kind: str, split: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    through(monkeypatch, Tile(16, 64, split, 4, 3))
    dtype = torch.bfloat16 if split == 1 else torch.float32
    x = torch.randn(3, KINDS[kind], device=device).to(dtype)
    check(x, weight_of(kind, 33, device, dtype), torch.randn(33, device=device), torch.randn(3, 33).to(device, dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_meet_plain_weights(kind: str, device: torch.device) -> None:
    x = torch.randn(70, KINDS[kind], device=device).to(torch.float16)
    check(x, weight_of(kind, 20, device, torch.float16), None, torch.randn(70, 20).to(device, torch.float16))
