"""The native product in every format against its reference, on every instruction set this processor has."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear import linear
from kernels.linear.cpu import JoinedWeight, PackedWeight, pack
from kernels.linear.formats import FORMATS
from kernels.native.library import available
from kernels.native.program import Buffer, Program
from kernels.testing import assert_close
from tests.kernels.recording import FENCE, ISAS, MAX_ROWS, Fenced, described, filled, normal
from tests.kernels.weights import plain_weight, raw_weight

pytestmark = pytest.mark.skipif(not available(), reason="the native library was not built: no C++ compiler")
ROUNDING = 2e-6  # of float32 sums, relative to the sum of the products' magnitudes
ROUNDED = [name for name, each in FORMATS.items() if not each.exact_inputs]


def width(type_name: str, least: int) -> int:
    """The smallest k from `least` on that the format can have."""
    block = FORMATS[type_name].block
    return -(-least // block) * block


def exact_inputs(rows: int, k: int, seed: int = 0) -> np.ndarray:
    """Activations that int8 codes with a scale per 32 hold exactly."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, (rows, -(-k // 32), 32))
    codes[..., 0] = 127
    values = codes * 2.0 ** rng.integers(-4, 5, (*codes.shape[:2], 1))
    return values.reshape(rows, -1)[:, :k].astype(np.float32)


def native(
    isa: str, x: np.ndarray, weight: PackedWeight | JoinedWeight, threads: int = 2, **kwargs: np.ndarray
) -> np.ndarray:
    program = Program(MAX_ROWS, MAX_ROWS, threads, isa)
    bias = torch.from_numpy(kwargs["bias"]) if "bias" in kwargs else None
    residual = filled(program, kwargs["residual"]) if "residual" in kwargs else None
    y = linear(filled(program, x), weight, bias, residual)
    program.run(described(len(x)))
    assert isinstance(y, Buffer)
    return y.array[: len(x)].copy()


def assert_within(actual: np.ndarray, x: np.ndarray, weight: torch.Tensor, rounded: bool) -> None:
    """Holds every output to what rounding can do: that of the sums and, if `rounded`, of activations to int8 codes."""
    wide, weights = x.astype(np.float64), weight.numpy().astype(np.float64)
    allowed = ROUNDING * (np.abs(wide) @ np.abs(weights).T)
    if rounded:
        largest = np.abs(wide).reshape(len(x), -1, 32).max(axis=2)
        allowed += (largest / 254).repeat(32, axis=1) @ np.abs(weights).T
    error = np.abs(actual - wide @ weights.T)
    assert (error <= allowed).all(), f"{(error / allowed).max():.3g} times what rounding explains"


shapes = st.tuples(st.integers(1, MAX_ROWS), st.integers(1, 70), st.integers(1, 700))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
@settings(max_examples=5, deadline=None)
@given(shape=shapes)
def test_a_product_is_exact_where_its_inputs_are(isa: str, type_name: str, shape: tuple[int, int, int]) -> None:
    rows, n, k = shape[0], shape[1], width(type_name, shape[2])
    raw, x = raw_weight(type_name, n, k), exact_inputs(rows, k)
    assert_within(native(isa, x, pack(raw, type_name, n, k)), x, plain_weight(raw, type_name, n, k), rounded=False)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", ROUNDED)
@settings(max_examples=3, deadline=None)
@given(shape=shapes)
def test_any_activation_is_rounded_to_the_nearest_code(isa: str, type_name: str, shape: tuple[int, int, int]) -> None:
    rows, n, k = shape[0], shape[1], width(type_name, shape[2])
    raw, x = raw_weight(type_name, n, k), normal(rows, k, seed=7)
    assert_within(native(isa, x, pack(raw, type_name, n, k)), x, plain_weight(raw, type_name, n, k), rounded=True)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
@pytest.mark.parametrize(("rows", "n"), [(3, 7), (13, 100)])
def test_bias_and_residual_are_added(isa: str, type_name: str, rows: int, n: int) -> None:
    k = width(type_name, 96)
    raw, x = raw_weight(type_name, n, k), exact_inputs(rows, k)
    bias, residual = normal(1, n, seed=1)[0], normal(rows, n, seed=2)
    actual = native(isa, x, pack(raw, type_name, n, k), bias=bias, residual=residual)
    tensors = map(torch.from_numpy, (bias, residual))
    expected = linear(torch.from_numpy(x), plain_weight(raw, type_name, n, k), *tensors)
    assert_close(actual, np.asarray(expected), 1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
def test_a_row_is_the_same_bits_in_any_batch(isa: str, type_name: str) -> None:
    k = width(type_name, 96)
    x, weight = normal(19, k, seed=3), pack(raw_weight(type_name, 50, k), type_name, 50, k)
    whole = native(isa, x, weight)
    for rows in (1, 2, 3, 5, 8, 9):
        assert np.array_equal(native(isa, x[-rows:], weight), whole[-rows:])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
@pytest.mark.parametrize("rows", [1, 3, 8, 15])
def test_nothing_is_written_but_into_buffers(isa: str, type_name: str, rows: int) -> None:
    program, k = Fenced(rows, isa), width(type_name, 96)
    linear(filled(program, normal(rows, k)), pack(raw_weight(type_name, 50, k), type_name, 50, k))
    program.run(described(rows))
    assert all((fence == FENCE).all() for fence in program.fences)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", FORMATS)
def test_what_is_not_a_number_comes_through(isa: str, type_name: str) -> None:
    k = width(type_name, 64)
    x = normal(3, k)
    x[1, 40] = np.nan
    y = native(isa, x, pack(raw_weight(type_name, 16, k), type_name, 16, k))
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", ["INT4_128", "INT8_32", "Q6_K"])
def test_columns_in_another_order_meet_their_own_activations(isa: str, type_name: str) -> None:
    k = width(type_name, 384)
    order = np.random.default_rng(5).permutation(k).astype(np.int32)
    raw, sorted_inputs = raw_weight(type_name, 20, k), exact_inputs(11, k)
    x = np.empty_like(sorted_inputs)
    x[:, order] = sorted_inputs
    weight = pack(raw, type_name, 20, k)
    assert np.array_equal(native(isa, x, pack(raw, type_name, 20, k, order)), native(isa, sorted_inputs, weight))


@pytest.mark.parametrize("type_name", FORMATS)
def test_a_weight_takes_the_memory_of_its_file(type_name: str) -> None:
    k = width(type_name, 256)
    raw = raw_weight(type_name, 32, k)
    assert pack(raw, type_name, 32, k).nbytes == raw.nbytes == 32 * FORMATS[type_name].bytes_per_row(k)


def test_a_weight_that_cannot_be_packed_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"Q3_K .*known: Q4_1, Q4_0"):
        pack(np.zeros(1, np.uint8), "Q3_K", 1, 256)
    with pytest.raises(ValueError, match="groups of 32, but the row has 40"):
        pack(np.zeros(1, np.uint8), "Q4_1", 1, 40)
    with pytest.raises(ValueError, match="takes 20 bytes, not 19"):
        pack(np.zeros(19, np.uint8), "Q4_1", 1, 32)
    with pytest.raises(ValueError, match="FP8_E4M3 weights are not reordered"):
        pack(np.zeros(36, np.uint8), "FP8_E4M3", 1, 32, np.arange(32, dtype=np.int32))


@pytest.mark.parametrize("isa", ISAS)
def test_joined_weights_give_each_part_its_own_columns_bias_and_residual(isa: str) -> None:
    """Bit for bit what each part gives alone, one of them with columns in an order of its own."""
    k, x = 64, normal(5, 64)
    order = np.random.default_rng(1).permutation(k).astype(np.int32)
    shapes = [("Q8_0", 7, None), ("INT4_32", 33, order), ("F32", 16, None)]
    parts = [pack(raw_weight(name, n, k), name, n, k, columns) for name, n, columns in shapes]
    bias, residual = normal(56, seed=2), normal(5, 56, seed=3)
    joined = native(isa, x, JoinedWeight(tuple(parts)), bias=bias, residual=residual)
    first = 0
    for part in parts:
        columns = slice(first, first + part.n)
        alone = native(isa, x, part, bias=bias[columns], residual=np.ascontiguousarray(residual[:, columns]))
        np.testing.assert_array_equal(joined[:, columns], alone)
        first += part.n
