"""The experts' native ops against their reference, and against themselves in other company."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.gated import GatedActivation
from kernels.linear.cpu import PackedWeight, pack
from kernels.moe import Experts, moe
from kernels.moe.reference import route
from kernels.native.library import available
from kernels.native.program import Buffer, Program
from kernels.testing import assert_close
from tests.kernels.recording import FENCE, ISAS, MAX_ROWS, Fenced, described, filled, normal
from tests.kernels.weights import plain_weight, raw_weight

native = pytest.mark.skipif(not available(), reason="the native library was not built: no C++ compiler")


@dataclass(frozen=True)
class Layer:
    """The same experts for both implementations."""

    packed: Experts
    plain: Experts

    def expected(self, x: np.ndarray, logits: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
        tensors = (None if each is None else torch.from_numpy(each) for each in (x, logits, residual))
        x_, logits_, residual_ = tensors
        return cast(torch.Tensor, moe(x_, logits_, self.plain, residual_)).numpy()  # type: ignore[arg-type]

    def native(
        self, x: np.ndarray, logits: np.ndarray, residual: np.ndarray | None = None, isa: str = "", threads: int = 2
    ) -> np.ndarray:
        program = Program(MAX_ROWS, MAX_ROWS, num_threads=threads, isa=isa)
        return self.run(program, x, logits, residual)

    def run(
        self, program: Program, x: np.ndarray, logits: np.ndarray, residual: np.ndarray | None = None
    ) -> np.ndarray:
        added = None if residual is None else filled(program, residual)
        y = cast(Buffer, moe(filled(program, x), filled(program, logits), self.packed, added))
        program.run(described(len(x)))
        return y.array[: len(x)].copy()


def layer(
    count: int,
    top_k: int,
    hidden: int = 64,
    width: int = 32,
    type_name: str = "F32",
    normalised: bool = True,
    activation: GatedActivation = "silu",
    biased: bool = False,
) -> Layer:
    shapes = ((count * 2 * width, hidden), (count * hidden, width))
    raws = [raw_weight(type_name, *shape) for shape in shapes]
    biases = [torch.from_numpy(normal(n, seed=n)) if biased else None for n, _ in shapes]
    packed = [pack(raw, type_name, *shape) for raw, shape in zip(raws, shapes, strict=True)]
    plain = [plain_weight(raw, type_name, *shape) for raw, shape in zip(raws, shapes, strict=True)]
    return Layer(*(Experts(count, top_k, normalised, activation, *weights, *biases) for weights in (packed, plain)))  # type: ignore[arg-type]


@native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("type_name", "tolerance"), [("F32", 2e-6), ("BF16", 2e-6), ("Q4_0", 2e-2), ("Q8_0", 2e-2)])
def test_experts_agree_with_the_reference(isa: str, type_name: str, tolerance: float) -> None:
    experts = layer(6, 2, 96, 64, type_name, biased=True)
    x, logits, residual = normal(13, 96), normal(13, 6, seed=1), normal(13, 96, seed=2)
    actual = experts.native(x, logits, residual, isa=isa)
    assert_close(actual, experts.expected(x, logits, residual), tolerance)


@native
@settings(max_examples=80, deadline=None)
@given(
    rows=st.one_of(st.sampled_from([0, 1]), st.integers(2, MAX_ROWS)),
    count=st.integers(1, 20),
    data=st.data(),
    normalised=st.booleans(),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
    threads=st.sampled_from([1, 3]),
)
def test_experts_agree_over_random_shapes_and_routes(
    rows: int, count: int, data: st.DataObject, normalised: bool, spread: float, threads: int
) -> None:
    top_k = data.draw(st.one_of(st.sampled_from([1, count]), st.integers(1, count)), label="top_k")
    seed = data.draw(st.integers(0, 1000), label="seed")
    experts = layer(count, top_k, 32, 16, normalised=normalised)
    # A spread of 0 gives ties; an offset of the experts leaves the last ones without rows.
    logits = normal(rows, count, seed=seed) * spread - np.arange(count, dtype=np.float32) * (spread > 1)
    x = normal(rows, 32, seed=seed + 1)
    assert_close(experts.native(x, logits, threads=threads), experts.expected(x, logits), 2e-6)


@native
@pytest.mark.parametrize("isa", ISAS)
def test_one_expert_may_take_every_row_and_another_none(isa: str) -> None:
    experts = layer(4, 1)
    logits = np.tile(np.array([0, 9, 0, 0], np.float32), (MAX_ROWS, 1))
    x = normal(MAX_ROWS, 64)
    assert_close(experts.native(x, logits, isa=isa), experts.expected(x, logits), 2e-6)


@native
@pytest.mark.parametrize("isa", ISAS)
def test_an_expert_that_no_row_chose_is_not_read(isa: str) -> None:
    experts = layer(4, 2)
    logits = np.tile(np.array([3, 2, 1, 0], np.float32), (5, 1))
    x = normal(5, 64)
    expected = experts.native(x, logits, isa=isa)
    for weight in (experts.packed.gate_up, experts.packed.down):
        assert not isinstance(weight, torch.Tensor)
        weight.data[weight.nbytes // 2 :] = 0xFF  # NaN, should it be read
    assert np.array_equal(experts.native(x, logits, isa=isa), expected)


@native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("type_name", ["F32", "Q4_1"])
def test_a_row_is_the_same_bits_in_any_batch(isa: str, type_name: str) -> None:
    experts = layer(5, 2, 64, 32, type_name)
    x, logits = normal(MAX_ROWS, 64), normal(MAX_ROWS, 5, seed=9)
    together = experts.native(x, logits, isa=isa)
    backwards = experts.native(x[::-1].copy(), logits[::-1].copy(), isa=isa)[::-1]
    alone = [experts.native(x[row : row + 1], logits[row : row + 1], isa=isa, threads=1)[0] for row in range(MAX_ROWS)]
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, np.stack(alone))


@native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("rows", "count", "top_k"), [(1, 5, 5), (9, 3, 2), (17, 1, 1), (4, 20, 3)])
def test_experts_write_nowhere_but_into_their_buffers(isa: str, rows: int, count: int, top_k: int) -> None:
    program = Fenced(rows, isa)
    layer(count, top_k, 32, 16, "F32").run(program, normal(rows, 32), normal(rows, count, seed=3))
    layer(count, top_k, 32, 32, "Q4_0").run(program, normal(rows, 32), normal(rows, count, seed=3))
    assert all((fence == FENCE).all() for fence in program.fences)


@native
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("normalised", [True, False])
def test_what_is_no_number_reaches_the_output_of_its_own_row_only(isa: str, normalised: bool) -> None:
    experts = layer(4, 2, normalised=normalised)
    x, logits = normal(3, 64), normal(3, 4, seed=1)
    logits[1, 3] = np.nan
    for y in (experts.native(x, logits, isa=isa), experts.expected(x, logits)):
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()


def test_weights_are_shares_of_all_experts_or_of_the_chosen() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0, 2.0]])
    numbers, shares = route(logits, 3, normalised=False)
    assert numbers.tolist() == [[1, 3, 2]]  # equals by their numbers
    everything = logits.softmax(-1)[0]
    assert torch.allclose(shares[0], everything[numbers[0]])
    _, of_chosen = route(logits, 3, normalised=True)
    assert torch.allclose(of_chosen[0], shares[0] / shares[0].sum())


def test_more_experts_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="of 4 experts 5 cannot be chosen"):
        replace(layer(4, 4).plain, top_k=5)


@native
def test_experts_that_do_not_fit_are_refused_with_the_numbers() -> None:
    x, logits = normal(1, 64), normal(1, 4)
    with pytest.raises(ValueError, match=r"4 experts of \[256, 64\] and \[256, 32\] do not fit 64 .* and 5 router"):
        layer(4, 2).native(x, normal(1, 5))
    with pytest.raises(ValueError, match="no whole tiles of 16"):
        layer(4, 2, 64, 24).native(x, logits)
    one = layer(4, 2)
    order = np.arange(64, dtype=np.int32)
    sorted_columns = replace(one.packed, gate_up=replace(cast(PackedWeight, one.packed.gate_up), order=order))
    with pytest.raises(ValueError, match="columns are in another order"):
        replace(one, packed=sorted_columns).native(x, logits)
