"""The experts' Triton kernels, in its interpreter, against their reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device import DeviceTensor
from kernels.gated import GatedActivation
from kernels.linear.device_weight import DeviceWeight, pack
from kernels.moe import Experts, reference
from kernels.moe.triton_kernel import QUANTISED_TILES, Tile, block_m, moe
from kernels.moe.triton_routing import max_tiles, route


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(
    count: int,
    top_k: int,
    hidden: int = 32,
    width: int = 16,
    normalised: bool = True,
    activation: GatedActivation = "silu",
    biased: bool = False,
) -> Experts:
    shapes = ((count * 2 * width, hidden), (count * hidden, width))
    weights = [random(*shape, seed=1) * 0.3 for shape in shapes]
    biases = [random(n, seed=2) if biased else None for n, _ in shapes]
    return Experts(count, top_k, normalised, activation, *weights, *biases)


def run(x: torch.Tensor, logits: torch.Tensor, experts: Experts, residual: torch.Tensor | None = None) -> torch.Tensor:
    added = None if residual is None else DeviceTensor(residual)
    return moe(DeviceTensor(x), DeviceTensor(logits), experts, added).tensor


def assert_agrees(
    x: torch.Tensor,
    logits: torch.Tensor,
    experts: Experts,
    residual: torch.Tensor | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Relative to the largest value, but not to less than one: what is summed may cancel out."""
    wide = [None if each is None else each.float() for each in (x, logits, residual)]
    expected = reference.moe(wide[0], wide[1], experts, wide[2])  # type: ignore[arg-type]
    actual = run(x, logits, experts, residual)
    assert actual.dtype == x.dtype
    largest = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(actual.float(), expected, rtol=0, atol=tolerance * largest)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.one_of(st.just(1), st.integers(2, 20)),
    count=st.integers(1, 4),
    data=st.data(),
    hidden=st.integers(1, 40),
    width=st.integers(1, 20),
    normalised=st.booleans(),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
    added=st.booleans(),
    activation=st.sampled_from(["silu", "gelu_tanh", "clamped_silu"]),
    biased=st.booleans(),
)
def test_experts_agree_over_random_shapes_and_routes(
    rows: int,
    count: int,
    data: st.DataObject,
    hidden: int,
    width: int,
    normalised: bool,
    spread: float,
    added: bool,
    activation: GatedActivation,
    biased: bool,
) -> None:
    top_k = data.draw(st.one_of(st.sampled_from([1, count]), st.integers(1, count)), label="top_k")
    seed = data.draw(st.integers(0, 1000), label="seed")
    # A spread of 0 gives ties; an offset of the experts leaves the last ones without rows.
    logits = random(rows, count, seed=seed) * spread - torch.arange(count) * (spread > 1)
    residual = random(rows, hidden, seed=seed + 2) if added else None
    experts = layer(count, top_k, hidden, width, normalised, activation, biased)
    assert_agrees(random(rows, hidden, seed=seed + 1), logits, experts, residual)


def test_rows_wider_than_a_tile_are_taken_in_several_steps() -> None:
    assert_agrees(random(2, 150), random(2, 2), layer(2, 1, hidden=150, width=70))


@pytest.mark.parametrize("rows", [40, 70, 130])  # tiles of 32, 64 and 128 rows
def test_one_expert_may_take_every_row_and_another_none(rows: int) -> None:
    logits = torch.tensor([[0.0, 9]]).repeat(rows, 1)
    assert_agrees(random(rows, 24), logits, layer(2, 1, hidden=24))


def test_an_expert_that_no_row_chose_is_not_read() -> None:
    experts = layer(4, 2)
    assert isinstance(experts.gate_up, torch.Tensor)
    assert isinstance(experts.down, torch.Tensor)
    x, logits = random(5, 32), torch.tensor([[3.0, 2, 1, 0]]).repeat(5, 1)
    expected = run(x, logits, experts)
    for weight in (experts.gate_up, experts.down):
        weight[len(weight) // 2 :] = torch.nan
    assert torch.equal(run(x, logits, experts), expected)


def test_what_is_no_number_reaches_the_output_of_its_own_row_only() -> None:
    x, logits = random(4, 32), random(4, 4, seed=1)
    logits[1, 3], x[2, 5] = torch.nan, torch.nan
    for normalised in (True, False):
        y = run(x, logits, layer(4, 2, normalised=normalised))
        assert y[[1, 2]].isnan().all()
        assert y[[0, 3]].isfinite().all()


@pytest.mark.parametrize("rows", [3, 75])  # one program, and several that tell each other what they counted
@pytest.mark.parametrize("normalised", [True, False])
def test_each_pair_of_row_and_expert_has_one_place_in_a_tile_of_its_expert(rows: int, normalised: bool) -> None:
    logits = random(rows, 20, seed=4).round()  # with ties
    logits[0, :5] = torch.tensor([-0.0, 0.0, torch.nan, -torch.inf, torch.nan])
    routes = route(logits, 6, normalised, block_m=16)
    numbers, weights = reference.route(logits, 6, normalised)
    assert torch.allclose(routes.weights.view(rows, 6), weights, atol=1e-6, equal_nan=True)
    expert_of: dict[int, int] = {}
    for places, (expert, taken) in zip(routes.pairs.view(-1, 16), routes.tiles.tolist(), strict=True):
        pairs = places[:taken].tolist()
        assert pairs == sorted(pairs)
        assert not expert_of.keys() & set(pairs)
        expert_of.update(dict.fromkeys(pairs, expert))
    assert [expert_of[pair] for pair in range(rows * 6)] == numbers.flatten().tolist()


@given(chosen=st.lists(st.integers(0, 9), min_size=1, max_size=60), block_m=st.sampled_from([1, 4, 16]))
def test_no_routes_need_more_tiles_than_there_are(chosen: list[int], block_m: int) -> None:
    tiles = sum(-(-chosen.count(expert) // block_m) for expert in set(chosen))
    assert tiles <= max_tiles(len(chosen), 10, block_m)
    fullest = [min(each, 9) for each in range(len(chosen))]  # the last expert has all that the others left
    assert sum(-(-fullest.count(expert) // block_m) for expert in set(fullest)) <= max_tiles(len(chosen), 10, block_m)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_activations_in_half_precision_are_summed_in_single(dtype: torch.dtype, tolerance: float) -> None:
    plain = layer(3, 2, 48, 16)
    assert torch.is_tensor(plain.gate_up)
    assert torch.is_tensor(plain.down)
    experts = replace(plain, gate_up=plain.gate_up.to(dtype), down=plain.down.to(dtype))
    x, logits, residual = (random(*shape).to(dtype) for shape in ((5, 48), (5, 3), (5, 48)))
    assert_agrees(x, logits, experts, residual, tolerance)


def quantised(weight: torch.Tensor, kind: str, group: int, affine: bool) -> DeviceWeight:
    """Random codes, whatever the weight was."""
    n, k = weight.shape
    generator = torch.Generator().manual_seed(n)
    low = {"int4": 8, "int8": 128}.get(kind, 1)
    codes = torch.randint(-low, low, (n, k), generator=generator).to(torch.int8)
    if kind == "fp8":
        codes = torch.randn(n, k, generator=generator).to(torch.float8_e4m3fn)
    scales = torch.rand(k // group, n, generator=generator) / low
    offsets = torch.randn(k // group, n, generator=generator) * 0.1 if affine else None
    return DeviceWeight(n, k, group, pack(codes) if kind == "int4" else codes, scales, offsets)


@pytest.mark.parametrize(
    ("kind", "groups", "affine"),
    [
        ("int4", (32, 32), True),
        ("int4", (160, 32), True),  # a row is one group
        ("int8", (32, 32), False),
        ("fp8", (160, 32), False),
    ],
)
def test_quantised_experts_are_multiplied_as_what_they_stand_for(
    kind: str, groups: tuple[int, int], affine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(QUANTISED_TILES, 16, (Tile(64, 0, 4, 4),))  # fewer programs than the narrow ones: sooner done
    plain = layer(2, 1, hidden=160, width=32, biased=True)
    weights = zip((plain.gate_up, plain.down), groups, strict=True)
    gate_up, down = (quantised(weight, kind, group, affine) for weight, group in weights if torch.is_tensor(weight))
    assert_agrees(random(4, 160), random(4, 2), replace(plain, gate_up=gate_up, down=down))


def test_a_tile_holds_more_rows_than_an_expert_has_on_average_as_far_as_both_weights_allow() -> None:
    plain = layer(4, 2)
    assert [block_m(rows, plain) for rows in (1, 22, 23, 43, 1000)] == [16, 16, 32, 32, 128]
    assert torch.is_tensor(plain.down)
    mixed = replace(plain, down=quantised(plain.down, "int8", 16, affine=False))
    assert [block_m(rows, mixed) for rows in (1, 1000)] == [16, 64]


def test_no_rows_are_no_rows() -> None:
    assert run(random(0, 32), random(0, 4), layer(4, 2)).shape == (0, 32)


def test_experts_that_do_not_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"4 experts of \[128, 32\] and \[128, 16\] do not fit 32 .* and 5 router"):
        run(random(1, 32), random(1, 5), layer(4, 2))
