"""Rotation on a GPU, and what it leaves in the cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.attention.cache import BLOCK_SIZE, LayerCache, allocate_on
from kernels.device import DeviceStep, DeviceTensor
from kernels.native.program import StepArrays
from kernels.rotary import HeadNorms, RotaryTables, reference
from kernels.rotary.triton_kernel import rotary
from tests.kernels.triton.shapes import TOLERANCE, assert_near, random

BLOCKS, POSITIONS = 3, 20
SLOTS = [5, -1, 40]


@dataclass(frozen=True)
class Case:
    """Rows at SLOTS; `width`: half of the dimensions that turn."""

    num_heads: int
    kv_heads: int
    head_dim: int
    width: int
    dtype: torch.dtype = torch.float32
    cached: torch.dtype = torch.float32
    normed: bool = False
    scales: tuple[float, float] = (1.0, 1.0)

    def qkv(self) -> torch.Tensor:
        heads = self.num_heads + 2 * self.kv_heads
        return random(1, len(SLOTS), heads * self.head_dim, dtype=self.dtype)

    def cache(self, device: torch.device) -> LayerCache:
        return allocate_on(device, BLOCKS, self.kv_heads, self.head_dim, self.cached, *self.scales)

    def tables(self, device: torch.device) -> RotaryTables:
        angles = random(2, POSITIONS, self.width).to(device)
        return RotaryTables(angles.cos(), angles.sin())

    def norms(self, device: torch.device) -> HeadNorms | None:
        q, k = (random(seed, self.head_dim).to(device) for seed in (3, 4))
        return HeadNorms(q, k, 1e-3) if self.normed else None

    def on_device(self, device: torch.device, qkv: torch.Tensor) -> tuple[torch.Tensor, LayerCache]:
        step = DeviceStep(_step(), device)
        step.upload()
        cache = self.cache(device)
        x = DeviceTensor(qkv.clone().to(device))
        return rotary(x, self.tables(device), cache, step, self.num_heads, self.norms(device)).tensor.cpu(), cache

    def by_reference(self, qkv: torch.Tensor) -> tuple[torch.Tensor, LayerCache]:
        cpu = torch.device("cpu")
        cache = self.cache(cpu)
        tables, norms = self.tables(cpu), self.norms(cpu)
        return reference.rotary(qkv.float(), tables, cache, _step(), self.num_heads, norms), cache


def _step() -> StepArrays:
    step = StepArrays(len(SLOTS), 1, BLOCKS)
    step.slots[:] = SLOTS
    step.positions[:] = [0, 5, 19]
    return step


cases = st.builds(
    Case,
    num_heads=st.sampled_from([1, 6, 10]),
    kv_heads=st.sampled_from([1, 2, 9]),
    head_dim=st.sampled_from([64, 24]),
    width=st.sampled_from([12, 8, 5]),
    dtype=st.sampled_from(list(TOLERANCE)),
    cached=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    normed=st.booleans(),
)


@settings(max_examples=15, deadline=None)
@given(cases)
def test_heads_turn_and_reach_the_cache_as_the_reference_says(device: torch.device, case: Case) -> None:
    qkv = case.qkv()
    actual, cache = case.on_device(device, qkv)
    expected, expected_cache = case.by_reference(qkv)
    queries = case.num_heads * case.head_dim
    assert_near(actual[:, :queries], expected[:, :queries])
    assert torch.equal(actual[:, queries:], qkv[:, queries:])
    for stored, meant in ((cache.keys, expected_cache.keys), (cache.values, expected_cache.values)):
        wider = max(case.dtype, case.cached, key=lambda dtype: TOLERANCE[dtype])
        assert_near(stored.float().to(wider), meant)


def test_rows_without_a_slot_are_written_nowhere(device: torch.device) -> None:
    case = Case(4, 2, 32, 16)
    _, cache = case.on_device(device, case.qkv())
    written = cache.values.abs().sum(dim=(1, 3)).flatten().nonzero().flatten().tolist()
    assert written == sorted(slot for slot in SLOTS if slot >= 0)
    assert cache.keys.abs().sum(dim=(1, 2)).flatten().nonzero().flatten().tolist() == written


def test_an_fp8_cache_holds_the_nearest_codes_of_what_the_scales_leave(device: torch.device) -> None:
    case = Case(2, 2, 64, 32, cached=torch.float8_e4m3fn, scales=(0.5, 4.0))
    qkv = case.qkv()
    _, cache = case.on_device(device, qkv)
    _, expected = case.by_reference(qkv)
    assert torch.equal(cache.values.view(torch.uint8).cpu(), expected.values.view(torch.uint8))
    # The rotation of keys may differ in its last bit, and a code with it.
    keys, meant = cache.keys.float().cpu(), expected.keys.float()
    assert ((keys - meant).abs() <= meant.abs() / 8).all()
    assert (keys != meant).float().mean() < 0.01


def test_fp8_rounds_ties_to_even_ends_at_448_and_keeps_nan(device: torch.device) -> None:
    codes = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    between = (codes[1:] + codes[:-1]) / 2
    values = torch.cat([codes, between, between * 1.001, between * 0.999, torch.tensor([449.0, 1e9, torch.nan])])
    values = torch.cat([values, -values, torch.zeros(1024 - 2 * len(values))])
    case = Case(1, 16, 64, 32, cached=torch.float8_e4m3fn)
    qkv = case.qkv()
    qkv[0, -1024:] = values
    _, cache = case.on_device(device, qkv)
    stored = cache.values[SLOTS[0] // BLOCK_SIZE, :, SLOTS[0] % BLOCK_SIZE].flatten().cpu()
    expected = values.clamp(-448, 448).to(torch.float8_e4m3fn)
    same = (stored.view(torch.uint8) == expected.view(torch.uint8)) | (
        stored.float().isnan() & expected.float().isnan()
    )
    assert same.all(), values[~same]


def test_a_row_of_nan_does_not_reach_others(device: torch.device) -> None:
    case = Case(4, 2, 32, 16, normed=True)
    qkv = case.qkv()
    qkv[1] = torch.nan
    actual, cache = case.on_device(device, qkv)
    assert actual.isnan().any(dim=1).tolist() == [False, True, False]
    assert not cache.keys.isnan().any()
    assert not cache.values.isnan().any()


def test_no_rows_are_no_work(device: torch.device) -> None:
    case = Case(2, 1, 32, 16)
    step, cache = DeviceStep(_step(), device), case.cache(device)
    empty = DeviceTensor(case.qkv()[:0].to(device))
    assert rotary(empty, case.tables(device), cache, step, 2, None).tensor.shape == (0, 128)
