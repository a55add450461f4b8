"""Attention's Triton kernels against the reference, over the same paged cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.attention import reference, triton_decode, triton_prefill  # noqa: E402
from kernels.attention.cache import CACHE_TYPES, LayerCache, allocate, allocate_on  # noqa: E402
from kernels.attention.triton_kernel import attention  # noqa: E402
from kernels.device import DeviceStep, DeviceTensor, interpreting  # noqa: E402
from kernels.native.program import StepArrays  # noqa: E402
from kernels.testing import assert_close  # noqa: E402

DEVICE = torch.device("cpu" if interpreting() else "cuda")
Shape = tuple[int, int, int]  # heads, KV heads, head_dim


@dataclass
class Case:
    """Sequences of given (computed, new) lengths; whatever they have no right to see is NaN."""

    qkv: torch.Tensor
    cache: LayerCache
    step: StepArrays
    heads: int

    def actual(self, **extras: Any) -> np.ndarray:
        step = DeviceStep(self.step, DEVICE)
        step.upload()
        y = attention(DeviceTensor(self.qkv), self.cache, step, *self._settings(**extras))
        return y.tensor.float().cpu().numpy()

    def expected(self, **extras: Any) -> np.ndarray:
        y = reference.attention(self.qkv.float(), self.cache, self.step, *self._settings(**extras))
        return y.cpu().numpy()

    def _settings(
        self, window: int | None = None, soft_cap: float | None = None, sinks: torch.Tensor | None = None
    ) -> tuple[Any, ...]:
        return self.heads, self.cache.head_dim**-0.5, window, soft_cap, sinks

    def poison_what_the_window_has_left(self, window: int) -> None:
        """Points each table's entries wholly before the window of the first new token at a block of no numbers."""
        poisoned = len(self.cache.keys) - 1
        for sequence in range(self.step.struct.num_sequences):
            old = int(self.step.positions[self.step.query_starts[sequence]])
            self.step.block_tables[sequence, : max(0, old + 1 - window) // 16] = poisoned


def make_case(
    lengths: list[tuple[int, int]],
    shape: Shape = (6, 2, 64),
    cache_type: str = "float32",
    dtype: torch.dtype = torch.float32,
) -> Case:
    heads, kv_heads, dim = shape
    rng = np.random.default_rng(1)
    lengths = sorted(lengths, key=lambda each: each[1] > 1)  # decodes come first
    rows, longest = sum(new for _, new in lengths), max(old + new for old, new in lengths)
    step = StepArrays(rows, len(lengths), longest // 16 + 2)
    num_blocks = len(lengths) * step.struct.block_table_stride
    unused = list(range(num_blocks - 1))
    cache = allocate_on(DEVICE, num_blocks, kv_heads, dim, CACHE_TYPES[cache_type], 0.75, 0.02)
    cache.keys[-1] = cache.values[-1] = float("nan")
    step.block_tables[:] = num_blocks - 1
    row = 0
    for index, (old, new) in enumerate(lengths):
        table = [unused.pop(rng.integers(len(unused) // 2, len(unused))) for _ in range(-(-(old + new) // 16))]
        if index and min(old, lengths[0][0]) >= 16:
            table[0] = step.block_tables[0, 0]  # a prefix that they share
        for stored in (cache.keys, cache.values):
            stored[table] = torch.from_numpy(rng.standard_normal((len(table), *stored.shape[1:]))).to(stored)
        cache.keys[table[-1], :, :, (old + new - 1) % 16 + 1 :] = float("nan")
        cache.values[table[-1], :, (old + new - 1) % 16 + 1 :] = float("nan")
        positions = np.arange(old, old + new)
        step.block_tables[index, : len(table)] = table
        step.positions[row : row + new] = positions
        step.slots[row : row + new] = step.block_tables[index, positions // 16] * 16 + positions % 16
        row += new
        step.query_starts[index + 1] = row
    step.struct.num_rows, step.struct.num_sequences = rows, len(lengths)
    qkv = torch.from_numpy(rng.standard_normal((rows, (heads + 2 * kv_heads) * dim)))
    return Case(qkv.to(DEVICE, dtype), cache, step, heads)


def multiprocessors(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(triton_decode, "multiprocessors", lambda _: number)


@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 150), st.just(1)) | st.tuples(st.integers(0, 80), st.integers(2, 70)),
        min_size=1,
        max_size=3,
    ),
    shape=st.sampled_from([(2, 2, 32), (3, 1, 64), (5, 1, 80), (2, 1, 96), (1, 1, 256)]),
    window=st.none() | st.sampled_from([1, 15, 16, 17, 64]) | st.integers(2, 150),
    soft_cap=st.sampled_from([None, 2.0]),
    with_sinks=st.booleans(),
    cache_type=st.sampled_from(sorted(CACHE_TYPES)),
    number=st.sampled_from([1, 8]),
)
@example([(30, 1), (30, 9)], (2, 2, 32), 16, None, False, "float32", 1)  # the last token of a block is the first seen
def test_attention_agrees_with_the_reference_over_random_batches(
    lengths: list[tuple[int, int]],
    shape: Shape,
    window: int | None,
    soft_cap: float | None,
    with_sinks: bool,
    cache_type: str,
    number: int,
) -> None:
    case = make_case(lengths, shape, cache_type)
    sinks = torch.linspace(-1, 3, shape[0], device=DEVICE) if with_sinks else None
    extras: dict[str, Any] = {"window": window, "soft_cap": soft_cap, "sinks": sinks}
    expected = case.expected(**extras)
    if window is not None:
        case.poison_what_the_window_has_left(window)
    with pytest.MonkeyPatch.context() as monkeypatch:
        multiprocessors(monkeypatch, number)
        assert_close(case.actual(**extras), expected, 3e-6)


@pytest.mark.parametrize("cache_type", ["bfloat16", "fp8"])
def test_half_precision_is_as_close_as_its_own_rounding(cache_type: str) -> None:
    case = make_case([(90, 1), (20, 20)], (4, 2, 64), cache_type, torch.bfloat16)
    assert_close(case.actual(), case.expected(), 1.5e-2)


@pytest.mark.parametrize("number", [1, 64])
@pytest.mark.parametrize("sinks", [None, torch.ones(2)])
def test_a_decode_that_only_fills_up_a_batch_reads_nothing_and_gets_zeros(
    monkeypatch: pytest.MonkeyPatch, number: int, sinks: torch.Tensor | None
) -> None:
    multiprocessors(monkeypatch, number)
    sinks = None if sinks is None else sinks.to(DEVICE)
    case = make_case([(200, 1), (0, 1), (100, 1)], (2, 1, 32))
    expected = case.expected(sinks=sinks)
    case.step.slots[1], case.step.positions[1], case.step.block_tables[1] = -1, 60, len(case.cache.keys) - 1
    expected[1] = 0
    assert_close(case.actual(sinks=sinks), expected, 3e-6)


def test_offsets_into_the_cache_pass_2_to_the_31() -> None:
    case = make_case([(40, 1), (0, 9)], (1, 1, 256), "fp8")
    expected, used = case.expected(), len(case.cache.keys)
    keys, values = (
        torch.empty(2**31 // (16 * 256) + used, 1, 16, 256, dtype=torch.float8_e4m3fn, device=DEVICE) for _ in range(2)
    )  # memory that is not written is not taken
    values[-used:], keys[-used:] = case.cache.values, case.cache.keys.transpose(2, 3)
    case.cache = replace(case.cache, keys=keys.transpose(2, 3), values=values)
    case.step.block_tables += len(keys) - used
    assert_close(case.actual(), expected, 3e-6)


def test_a_cache_in_the_layout_of_the_cpu_is_refused() -> None:
    case = make_case([(0, 1)], (1, 1, 32))
    case.cache = allocate(2, 1, 32, torch.float32)
    with pytest.raises(ValueError, match="allocate_on"):
        case.actual()


@pytest.mark.parametrize(
    ("programs", "most_tiles", "splits"),
    [(8, 512, 29), (8, 16, 16), (1, 512, 128), (136, 512, 5), (264, 512, 1), (212, 512, 1), (8, 1, 1)],
)
def test_sequences_are_split_until_the_gpu_is_full_or_a_tile_is_left(
    programs: int, most_tiles: int, splits: int
) -> None:
    assert triton_decode.num_splits(programs, 264, most_tiles) == splits


@triton.jit
def _list_tiles(starts_ptr, y_ptr, first_sequence, num_sequences, QUERIES: tl.constexpr):
    tile = tl.program_id(0)
    rows = triton_prefill._rows_of_tile(tile, starts_ptr, first_sequence, num_sequences, QUERIES, AT_ONCE=4)
    tl.store(y_ptr + tile * 3, rows[0])
    tl.store(y_ptr + tile * 3 + 1, rows[1])
    tl.store(y_ptr + tile * 3 + 2, rows[2])


def test_tiles_cover_each_row_of_more_sequences_than_are_read_together() -> None:
    lengths = [2, 4, 5, 3, 9, 8]
    starts = np.cumsum([0, 1, 1, *lengths]).astype(np.int32)  # behind two decodes
    count = triton_prefill.num_tiles(sum(lengths), len(lengths), rows=22, group=5)
    y = torch.empty(count, 3, dtype=torch.int32, device=DEVICE)
    _list_tiles[(count,)](torch.from_numpy(starts).to(DEVICE), y, 2, len(lengths), QUERIES=4)
    rows = [(sequence, row) for sequence, first, end in y.tolist() for row in range(first, min(first + 4, end))]
    assert rows == [(index, row) for index in range(2, 8) for row in range(starts[index], starts[index + 1])]
