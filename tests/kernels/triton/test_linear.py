"""The product on a GPU against its reference, in every kind of weight and by every kernel that the launcher has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.device import DeviceTensor
from kernels.linear import JoinedDeviceWeight, linear, triton_kernel
from kernels.linear.device_formats import device_weight
from kernels.linear.device_weight import DeviceWeight
from kernels.linear.product import Product, Tile
from kernels.linear.triton_kernel import tiles_of
from kernels.linear.triton_quantised import quantise
from kernels.linear.triton_weight_only import _tickets
from kernels.testing import assert_close
from tests.kernels.weights import raw_weight

TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}
# Of each way to hold codes one, groups of each size, with and without offsets; and widths that are not whole spans.
WIDTHS = {
    "INT4": 96, "INT4_32": 160, "INT4_64": 192, "INT4_128": 256, "Q4_0": 96, "Q4_K": 256, "INT8": 200, "Q8_0": 160,
    "INT8_64": 192, "INT8_128": 256, "Q6_K": 256, "Q5_1": 96, "MXFP4": 64, "FP8_E4M3": 72, "FP8_E4M3_128": 256,
    "plain": 72,
}  # fmt: skip
EIGHT_BITS = ["INT8", "INT8_128", "FP8_E4M3", "FP8_E4M3_128"]  # whose activations many rows round
Weight = torch.Tensor | DeviceWeight | JoinedDeviceWeight


def weight_of(kind: str, n: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor | DeviceWeight:
    if kind == "plain":
        return torch.randn(n, WIDTHS[kind], device=device).to(dtype)
    return device_weight(kind, raw_weight(kind, n, WIDTHS[kind]), WIDTHS[kind], device)


def expected(x: torch.Tensor, weight: Weight, *added: torch.Tensor | None) -> torch.Tensor:
    plain = weight if isinstance(weight, torch.Tensor) else weight.dequantised()
    return x.double() @ plain.double().T + sum(each.double() for each in added if each is not None)


def check(
    x: torch.Tensor, weight: Weight, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None
) -> None:
    y = linear(DeviceTensor(x), weight, bias, None if residual is None else DeviceTensor(residual))
    assert isinstance(y, DeviceTensor)
    assert y.tensor.dtype == x.dtype
    assert_near(y.tensor, expected(x, weight, bias, residual))


def assert_near(y: torch.Tensor, reference: torch.Tensor) -> None:
    assert_close(y.float().cpu().numpy(), reference.float().cpu().numpy(), TOLERANCE[y.dtype])


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many rows that they are many."""
    monkeypatch.setattr(triton_kernel, "FEW_ROWS", 3)
    monkeypatch.setattr(triton_kernel, "MANY_ROWS", 4)
    return 5


def through(patch: pytest.MonkeyPatch, tile: Tile) -> None:
    patch.setattr(triton_kernel, "tiles_of", lambda _: [tile])


@pytest.mark.parametrize("kind", WIDTHS)
def test_few_rows_meet_weights_as_they_are(kind: str, device: torch.device) -> None:
    x = torch.randn(2, WIDTHS[kind], device=device)
    check(x, weight_of(kind, 9, device, x.dtype), torch.randn(9, device=device), torch.randn(2, 9, device=device))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(list(WIDTHS)),
    rows=st.integers(1, 20),
    n=st.integers(1, 70),
    split=st.integers(1, 3),
    dtype=st.sampled_from([torch.float16, torch.bfloat16]),
    added=st.tuples(st.booleans(), st.booleans()),
)
def test_tiles_and_splits_of_any_size_give_the_same(
    kind: str, rows: int, n: int, split: int, dtype: torch.dtype, added: tuple[bool, bool], device: torch.device
) -> None:
    x = torch.randn(rows, WIDTHS[kind], device=device).to(dtype)
    bias = torch.randn(n, device=device) if added[0] else None
    residual = torch.randn(rows, n, device=device).to(dtype) if added[1] else None
    with pytest.MonkeyPatch.context() as patch:
        through(patch, Tile("weight only", 16, 64, split))
        check(x, weight_of(kind, n, device, dtype), bias, residual)
    assert not _tickets(device).any()


@pytest.mark.parametrize("kind", [kind for kind in WIDTHS if kind not in EIGHT_BITS])
def test_many_rows_meet_weights_that_are_written_out_in_slices(
    kind: str, many: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_kernel, "WRITTEN_OUT", 12 * WIDTHS[kind])
    x = torch.randn(many, WIDTHS[kind], device=device).to(torch.float16)
    bias, residual = torch.randn(20, device=device), torch.randn(many, 20).to(device, torch.float16)
    weight = weight_of(kind, 20, device, x.dtype)
    check(x, weight, bias, residual)
    check(x, weight, bias)


@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_many_rows_are_rounded_for_weights_of_eight_bits(kind: str, many: int, device: torch.device) -> None:
    x = torch.randn(many, WIDTHS[kind], device=device).to(torch.float16)
    weight = weight_of(kind, 20, device, x.dtype)
    assert isinstance(weight, DeviceWeight)
    codes, scales = quantise(x, weight.codes.dtype, 0 if weight.group == weight.k else weight.group)
    rounded = codes.float() * scales.T.repeat_interleave(weight.k // len(scales), dim=1)
    assert_close(rounded.cpu().numpy(), x.float().cpu().numpy(), 0.5 / 127 if codes.dtype == torch.int8 else 2**-4)
    bias, residual = torch.randn(20, device=device), torch.randn(many, 20).to(device, torch.float16)
    y = linear(DeviceTensor(x), weight, bias, DeviceTensor(residual))
    assert isinstance(y, DeviceTensor)
    assert_near(y.tensor, expected(rounded, weight, bias, residual))
    assert (y.tensor - expected(x, weight, bias, residual)).abs().max() > 0  # else nothing was rounded


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreter's NumPy
@pytest.mark.parametrize("kind", EIGHT_BITS)
@pytest.mark.parametrize("fault", [float("nan"), float("inf")])
def test_a_row_that_cannot_be_rounded_says_so_and_leaves_the_others_alone(
    kind: str, fault: float, many: int, device: torch.device
) -> None:
    x = torch.randn(many, WIDTHS[kind], device=device).to(torch.float16)
    weight = weight_of(kind, 4, device, x.dtype)
    y = linear(DeviceTensor(x), weight)
    x[2, 3] = fault
    z = linear(DeviceTensor(x), weight)
    assert isinstance(y, DeviceTensor)
    assert isinstance(z, DeviceTensor)
    assert z.tensor[2].isnan().all()
    z.tensor[2] = y.tensor[2]
    assert torch.equal(y.tensor, z.tensor)


def test_joined_weights_fill_their_own_columns(many: int, device: torch.device) -> None:
    kinds = ("INT4_32", "Q8_0")
    parts = tuple(weight_of(kind, n, device, torch.float32) for kind, n in zip(kinds, (5, 18), strict=True))
    plain = torch.randn(3, 160, device=device)
    weight = JoinedDeviceWeight((*parts, plain))
    for rows in (2, many):
        x = torch.randn(rows, 160, device=device)
        check(x, weight, torch.randn(26, device=device), torch.randn(rows, 26, device=device))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_every_code_of_eight_bits_is_a_factor_exactly(dtype: torch.dtype, device: torch.device) -> None:
    x, bits = torch.zeros(1, 32, dtype=dtype, device=device), torch.arange(256, dtype=torch.uint8, device=device)
    x[0, 0] = 1
    numbers = bits[bits & 0x7F != 0x7F].view(torch.float8_e4m3fn)
    for codes in (bits.view(torch.int8), numbers):
        wide = codes[:, None].repeat(1, 32)
        weight = DeviceWeight(len(codes), 32, 32, wide, torch.ones(1, len(codes), device=device))
        y = linear(DeviceTensor(x), weight)
        assert isinstance(y, DeviceTensor)
        assert torch.equal(y.tensor[0].float(), codes.float())


def test_the_kernel_is_chosen_by_rows_and_by_what_may_be_rounded(device: torch.device) -> None:
    def kernels(rows: int, kind: str, dtype: torch.dtype) -> set[str]:
        x = torch.empty(rows, WIDTHS[kind], dtype=dtype, device=device)
        weight = weight_of(kind, 8, device, dtype)
        return {tile.kernel for tile in tiles_of(Product(x, weight, None, None, x.new_empty(rows, 8)))}

    half, full = torch.bfloat16, torch.float32
    assert kernels(1, "INT4_128", half) == kernels(64, "INT8", half) == {"weight only"}
    assert kernels(65, "INT4_128", half) == kernels(512, "Q8_0", half) == {"vendor", "weight only"}
    assert kernels(513, "INT4_128", half) == kernels(513, "Q5_1", half) == {"vendor"}
    assert kernels(65, "INT8", half) == kernels(513, "FP8_E4M3_128", half) == {"quantised"}
    assert "quantised" not in kernels(65, "INT8", full) | kernels(65, "FP8_E4M3", full) | kernels(65, "Q5_1", half)
    assert kernels(1, "plain", half) == {"vendor", "weight only"}
    assert kernels(65, "plain", half) == {"vendor"}


def test_a_step_that_samples_nothing_asks_for_no_rows(device: torch.device) -> None:
    for kind in ("INT4", "INT8", "plain"):
        weight = weight_of(kind, 8, device, torch.float16)
        y = linear(DeviceTensor(torch.empty(0, WIDTHS[kind], dtype=torch.float16, device=device)), weight)
        assert isinstance(y, DeviceTensor)
        assert y.tensor.shape == (0, 8)


def test_k_is_split_where_tiles_are_fewer_than_the_programs_that_a_gpu_can_run(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_kernel, "_processors", lambda _: 100)

    def split(rows: int, n: int, k: int) -> int:
        weight = DeviceWeight(n, k, k, torch.empty(0, dtype=torch.int32), torch.empty(0))
        x, y = torch.empty(rows, k, dtype=torch.bfloat16), torch.empty(rows, n)
        return tiles_of(Product(x, weight, None, None, y))[0].split

    assert split(1, 64 * 400, 4096) == 1
    assert split(1, 64 * 100, 4096) == 4
    assert split(1, 64 * 100, 1024) == 2  # each has four steps at least
    assert split(128, 128 * 100, 4096) == 2
