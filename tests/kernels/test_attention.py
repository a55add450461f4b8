"""Attention and the rotation before it, natively and by the reference, on every instruction set this processor has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.phi3 import modeling_phi3

from kernels.attention import attention
from kernels.attention.cache import CACHE_TYPES, LayerCache, allocate
from kernels.native.library import available
from kernels.native.program import Program, StepArrays
from kernels.rotary import HeadNorms, rotary
from kernels.testing import assert_close
from native_engine.layers.rotary import rotary_tables
from tests.kernels.recording import ISAS, filled, normal

pytestmark = pytest.mark.skipif(not available(), reason="the native library was not built: no C++ compiler")


class Layer:
    """Attention of one layer over sequences of given (computed, new) lengths, natively and by the reference."""

    def __init__(
        self,
        lengths: list[tuple[int, int]],
        heads: int,
        kv_heads: int,
        dim: int,
        cache_type: str,
        rotary_dim: int | None = None,
    ) -> None:
        rng = np.random.default_rng(11)
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.rows = sum(new for _, new in lengths)
        blocks_each = [-(-(old + new) // 16) for old, new in lengths]
        order = rng.permutation(sum(blocks_each) + 2)
        self.cache = allocate(len(order) + 1, kv_heads, dim, CACHE_TYPES[cache_type])
        self.cache.keys.copy_(torch.from_numpy(rng.standard_normal(self.cache.keys.shape)))
        self.cache.values.copy_(torch.from_numpy(rng.standard_normal(self.cache.values.shape)))
        self.step = StepArrays(max(self.rows, 1), len(lengths), max(blocks_each))
        row = used = 0
        for index, (old, new) in enumerate(lengths):
            table = order[used : used + blocks_each[index]]
            used += len(table)
            positions = np.arange(old, old + new)
            self.step.block_tables[index, : len(table)] = table
            self.step.positions[row : row + new] = positions
            self.step.slots[row : row + new] = table[positions // 16] * 16 + positions % 16
            row += new
            self.step.query_starts[index + 1] = row
        self.step.struct.num_rows, self.step.struct.num_sequences = self.rows, len(lengths)
        self.qkv = rng.standard_normal((self.rows, (heads + 2 * kv_heads) * dim)).astype(np.float32)
        self.tables = rotary_tables(rotary_dim or dim, 10000.0, None, 512)

    def copy_of_cache(self) -> LayerCache:
        return replace(self.cache, keys=self.cache.keys.clone(), values=self.cache.values.clone())

    def poison_what_the_window_has_left(self, lengths: list[tuple[int, int]], window: int) -> None:
        """Points each table's entries wholly before the window of the first new token at a block of no numbers."""
        poisoned = len(self.cache.keys) - 1
        self.cache.keys[poisoned] = self.cache.values[poisoned] = float("nan")
        for index, (old, _) in enumerate(lengths):
            self.step.block_tables[index, : max(0, old + 1 - window) // 16] = poisoned

    def native(self, isa: str, norms: HeadNorms | None = None, **extras: Any) -> tuple[np.ndarray, LayerCache]:
        cache, program = self.copy_of_cache(), Program(self.rows, 1, num_threads=2, isa=isa)
        qkv = rotary(filled(program, self.qkv), self.tables, cache, self.step, self.heads, norms)
        y = attention(qkv, cache, self.step, self.heads, self.dim**-0.5, **extras)
        program.run(self.step)
        return y.array[: self.rows].copy(), cache

    def reference(
        self, norms: HeadNorms | None = None, stored: LayerCache | None = None, **extras: Any
    ) -> tuple[np.ndarray, LayerCache]:
        """Attends to what it stores itself, or to what is `stored`: a value between two numbers of the cache's type may
        have gone to either."""
        cache = self.copy_of_cache()
        qkv = rotary(torch.from_numpy(self.qkv), self.tables, cache, self.step, self.heads, norms)
        return attention(qkv, stored or cache, self.step, self.heads, self.dim**-0.5, **extras).numpy(), cache


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cache_type", CACHE_TYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (4, 4, 32), (8, 1, 128), (20, 2, 64), (14, 2, 64)])
def test_attention_agrees_with_the_reference(isa: str, cache_type: str, heads: int, kv_heads: int, dim: int) -> None:
    layer = Layer([(0, 1), (0, 37), (15, 1), (16, 1), (100, 1), (31, 5), (47, 18)], heads, kv_heads, dim, cache_type)
    if cache_type == "fp8":
        layer.cache = replace(layer.cache, k_scale=0.75, v_scale=0.02)
    actual, cache = layer.native(isa)
    expected, expected_cache = layer.reference(stored=cache)
    cache_tolerance = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2, "fp8": 0.08}[cache_type]
    assert_close(cache.keys.float().numpy(), expected_cache.keys.float().numpy(), cache_tolerance, "keys")
    assert_close(cache.values.float().numpy(), expected_cache.values.float().numpy(), cache_tolerance, "values")
    assert_close(actual, expected, 3e-6)


# Ties between two codes, numbers below the smallest normal one and below half the smallest of all, and the end.
AWKWARD = [
    *(0.0, -0.0, 1.0625, 1.1875, -1.1875, 2**-9, 2**-10, 1.5 * 2**-9, 2.5 * 2**-9, -3.5 * 2**-9, 7.5 * 2**-9, 2**-6),
    *(1e-5, 1e-40, -1e-40, 432.0, 447.9, 448.0, 449.0, 463.9, 464.0, -465.0, 1e30, np.inf, -np.inf, np.nan, -np.nan),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("k_scale", "v_scale"), [(1.0, 1.0), (0.037, 3.3)])
def test_fp8_stores_the_bytes_that_torch_rounds_to(isa: str, k_scale: float, v_scale: float) -> None:
    layer = Layer([(0, 1)] * 8, 1, 1, 256, "fp8")  # at position 0 nothing turns
    layer.cache = replace(layer.cache, k_scale=k_scale, v_scale=v_scale)
    layer.qkv[:, 256:] *= np.float32(2.0) ** np.arange(-10, 14, 3, dtype=np.float32)[:, None]
    awkward = np.array(AWKWARD, np.float32)
    finite = awkward[np.isfinite(awkward)]
    layer.qkv[0, 256 : 256 + len(finite)], layer.qkv[0, 512 : 512 + len(awkward)] = finite * k_scale, awkward * v_scale
    (_, actual), (_, expected) = layer.native(isa), layer.reference()
    for mine, theirs in ((actual.keys, expected.keys), (actual.values, expected.values)):
        assert torch.equal(mine.view(torch.uint8), theirs.view(torch.uint8))
    assert actual.values.float().isnan().sum() == 2


@pytest.mark.parametrize("isa", ISAS)
def test_fp8_codes_are_read_exactly(isa: str) -> None:
    layer, program = Layer([(0, 1)], 1, 1, 256, "fp8"), Program(1, 1, num_threads=1, isa=isa)
    codes = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    layer.cache.keys.zero_()
    layer.cache.values[int(layer.step.block_tables[0, 0]), 0, 0] = codes
    y = attention(filled(program, layer.qkv), layer.cache, layer.step, 1, 1.0)  # of one token: its value as it is
    program.run(layer.step)
    assert np.array_equal(y.array[0], codes.float().numpy(), equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), min_size=1, max_size=6),
    shape=st.sampled_from([(2, 1, 32), (3, 3, 64), (9, 3, 64), (16, 2, 96), (20, 2, 64), (4, 1, 256)]),
    window=st.none() | st.sampled_from([1, 2, 15, 16, 17, 31, 32, 33, 48, 128]) | st.integers(1, 250),
    soft_cap=st.sampled_from([None, 50.0, 2.0]),
    with_sinks=st.booleans(),
    cache_type=st.sampled_from(["float32", "fp8"]),
    isa=st.sampled_from(ISAS or [""]),
)
def test_attention_agrees_over_random_batches(
    lengths: list[tuple[int, int]],
    shape: tuple[int, int, int],
    window: int | None,
    soft_cap: float | None,
    with_sinks: bool,
    cache_type: str,
    isa: str,
) -> None:
    layer = Layer(lengths, *shape, cache_type)
    sinks = torch.from_numpy(normal(1, shape[0])[0] * 3) if with_sinks else None
    extras: dict[str, Any] = {"window": window, "soft_cap": soft_cap, "sinks": sinks}
    _, stored = layer.native(isa, **extras)
    expected, _ = layer.reference(stored=stored, **extras)
    if window is not None:
        layer.poison_what_the_window_has_left(lengths, window)
    assert_close(layer.native(isa, **extras)[0], expected, 5e-6)
    assert np.isfinite(layer.reference(**extras)[0]).all()


def as_transformers(layer: Layer, family: Any, window: int, **extras: Any) -> np.ndarray:
    """What a family of transformers makes of the layer's one sequence, nothing of which is computed yet."""
    cache = layer.copy_of_cache()
    qkv = rotary(torch.from_numpy(layer.qkv), layer.tables, cache, layer.step, layer.heads, None)
    assert isinstance(qkv, torch.Tensor)
    parts = qkv.view(1, layer.rows, -1, layer.dim).transpose(1, 2)
    q, k, v = parts.split([layer.heads, layer.kv_heads, layer.kv_heads], dim=1)
    place = torch.arange(layer.rows)
    seen = (place[None, :] <= place[:, None]) & (place[None, :] > place[:, None] - window)
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))[None, None]
    module = SimpleNamespace(num_key_value_groups=layer.heads // layer.kv_heads, training=False, **extras)
    y, _ = family.eager_attention_forward(module, q, k, v, mask, scaling=layer.dim**-0.5, **extras)
    return np.asarray(y.reshape(layer.rows, -1).numpy())


def test_the_reference_says_what_transformers_says_of_windows_soft_caps_and_sinks() -> None:
    layer, sinks = Layer([(0, 75)], 6, 2, 64, "float32"), torch.from_numpy(normal(1, 6)[0])
    expected = as_transformers(layer, modeling_gpt_oss, 20, sinks=sinks)
    assert_close(layer.reference(window=20, sinks=sinks)[0], expected, 2e-6)
    expected = as_transformers(layer, modeling_gemma2, 20, softcap=1.5)
    assert_close(layer.reference(window=20, soft_cap=1.5)[0], expected, 2e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_heads_are_normalised_before_the_rotation_where_the_model_asks(isa: str) -> None:
    layer = Layer([(3, 20)], 4, 2, 64, "float32")
    norms = HeadNorms(torch.rand(64) + 0.5, torch.rand(64) + 0.5, 1e-6)
    assert_close(layer.native(isa, norms)[0], layer.reference(norms)[0], 3e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("dim", "rotary_dim"), [(128, 96), (64, 32), (256, 64)])
def test_a_part_of_each_head_turns_and_the_rest_is_only_stored(isa: str, dim: int, rotary_dim: int) -> None:
    layer = Layer([(0, 5), (30, 4)], 6, 2, dim, "float32", rotary_dim)
    (actual, cache), (expected, expected_cache) = layer.native(isa), layer.reference()
    assert_close(cache.keys.numpy(), expected_cache.keys.numpy(), 1e-6, "keys")
    assert_close(actual, expected, 3e-6)


def test_a_partial_rotation_is_that_of_transformers() -> None:
    layer = Layer([(40, 9)], 24, 8, 128, "float32", rotary_dim=96)  # as Phi-4-mini
    rotated = rotary(torch.from_numpy(layer.qkv), layer.tables, layer.cache, layer.step, 24, None)
    assert isinstance(rotated, torch.Tensor)
    q, k, _ = torch.from_numpy(layer.qkv).view(9, 40, 128).split([24, 8, 8], dim=1)
    cos, sin = (torch.cat([table[40:49]] * 2, dim=-1) for table in (layer.tables.cos, layer.tables.sin))
    expected = torch.cat(modeling_phi3.apply_rotary_pos_emb(q, k, cos, sin), dim=1)
    assert_close(rotated.view(9, 40, 128)[:, :32].numpy(), expected.numpy(), 1e-6)


@pytest.mark.parametrize("rotary_dim", [24, 80, 160])
def test_a_width_that_is_not_whole_vectors_is_refused(rotary_dim: int) -> None:
    with pytest.raises(ValueError, match=rf"{rotary_dim} dimensions .* multiple of 32 up to head_dim, 128"):
        Layer([(0, 1)], 1, 1, 128, "float32", rotary_dim).native("")


@pytest.mark.parametrize("isa", ISAS)
def test_leftovers_of_other_requests_in_a_block_do_no_harm(isa: str) -> None:
    layer = Layer([(16, 3)], 2, 1, 32, "float32")
    last = int(layer.step.block_tables[0, 1])
    layer.cache.keys[last, :, :, 3:] = float("nan")
    layer.cache.values[last, :, 3:] = float("nan")
    assert np.isfinite(layer.native(isa)[0]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("extras", [{}, {"window": 9, "soft_cap": 3.0, "sinks": torch.arange(9) / 4}])
def test_a_prompt_cut_in_chunks_gives_the_same_bits(isa: str, extras: dict[str, Any]) -> None:
    whole = Layer([(0, 53)], 9, 3, 64, "float16")
    expected, _ = whole.native(isa, **extras)
    program, cache = Program(53, 1, num_threads=2, isa=isa), whole.copy_of_cache()
    source = program.buffer(whole.qkv.shape[1])
    qkv = rotary(source, whole.tables, cache, whole.step, 9, None)
    y = attention(qkv, cache, whole.step, 9, 64**-0.5, **extras)
    rows = []
    for first, last in ((0, 7), (7, 8), (8, 40), (40, 53)):
        chunk = StepArrays(53, 1, 4)
        count = last - first
        source.array[:count] = whole.qkv[first:last]
        chunk.block_tables[:] = whole.step.block_tables
        chunk.positions[:count], chunk.slots[:count] = whole.step.positions[first:last], whole.step.slots[first:last]
        chunk.query_starts[1], chunk.struct.num_rows, chunk.struct.num_sequences = count, count, 1
        program.run(chunk)
        rows.append(y.array[:count].copy())
    assert np.array_equal(np.concatenate(rows), expected)
