"""Drawing tokens on a GPU: as the reference does it, which keeps what the host's sampler keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.sampling import device_reference as reference
from kernels.sampling.draws import DeviceDraws
from kernels.sampling.triton_kernel import BLOCK, sample
from native_engine.request import SamplingParams
from native_engine.sampling.draw import _limited
from tests.kernels.triton.shapes import on, random

BELOW_ONE = 1 - 2**-24

Row = tuple[float, int, float, float, float]  # temperature, top_k, top_p, min_p, uniform


def draws_of(*rows: Row) -> DeviceDraws:
    temperature, top_k, top_p, min_p, uniform = (torch.tensor(column) for column in zip(*rows, strict=True))
    floats = (column.float() for column in (temperature, top_p, min_p, uniform))
    temperature, top_p, min_p, uniform = floats
    return DeviceDraws(temperature, top_k.int(), top_p, min_p, uniform)


def drawn(device: torch.device, logits: torch.Tensor, *rows: Row) -> list[int]:
    draws = draws_of(*rows)
    there = DeviceDraws(*(getattr(draws, name).to(device) for name in DeviceDraws.__slots__))
    tokens = sample(on(device, logits), there)
    assert tokens.dtype == torch.int32
    return tokens.tolist()


@pytest.mark.parametrize(
    ("dtype", "width", "count"), [(torch.bfloat16, BLOCK + 100, 7), (torch.float16, 300, 3), (torch.float32, 300, 3)]
)
def test_any_mixture_of_limits_gives_the_tokens_of_the_reference(
    device: torch.device, dtype: torch.dtype, width: int, count: int
) -> None:
    rows: list[Row] = [
        (1.2, width // 3, 0.8, 0.01, 0.4),
        (1.0, 0, 0.95, 0.1, 0.7),
        (0.7, 50, 1.0, 0.0, 0.6),
        (1.5, 0, 0.9, 0.0, 0.99),
        (1.0, 0, 1.0, 0.0, 0.3),
        (1.0, 0, 1.0, 0.3, BELOW_ONE),
        (0.0, 7, 0.5, 0.2, 0.9),  # greedy, whatever else it asks for
    ][:count]
    logits = (3 * random(1, len(rows), width)).to(dtype)
    assert drawn(device, logits, *rows) == reference.sample(logits.float(), draws_of(*rows)).tolist()


def test_among_equals_the_lower_ids_are_kept_exactly_as_many_as_the_limit_says(device: torch.device) -> None:
    equals = list(range(BLOCK - 4, BLOCK + 6))  # in two blocks
    logits = random(1, 5, BLOCK + 100).clamp(-1, 1) - 30
    logits[:, equals] = 2.0
    logits[:, 5] = 2.0
    logits[4, BLOCK + 50] = 3.0
    rows: list[Row] = [
        (1.0, 3, 1.0, 0.0, BELOW_ONE),
        (1.0, 7, 1.0, 0.0, BELOW_ONE),
        (1.0, 0, 0.5, 0.0, BELOW_ONE),  # 5.5 of 11 equal ones
        (1.0, 8, 0.5, 0.0, BELOW_ONE),
        (1.0, 4, 1.0, 0.0, BELOW_ONE),  # the best, behind equals of which those in its block are dropped
    ]
    tokens = [equals[1], equals[5], equals[4], equals[2], BLOCK + 50]
    assert drawn(device, logits.bfloat16(), *rows) == tokens


def test_greedy_rows_take_the_first_of_the_largest_and_rows_that_are_not_finite_none(device: torch.device) -> None:
    logits = random(1, 5, 2 * BLOCK + 1)
    logits[0, [BLOCK + 7, BLOCK - 1, 2 * BLOCK]] = 9.0
    logits[1, BLOCK + 3] = torch.nan
    logits[2, 3] = torch.inf
    logits[3, 2 * BLOCK] = -torch.inf
    greedy: Row = (0.0, 0, 1.0, 0.0, 0.5)
    tokens = drawn(device, logits, greedy, greedy, (1.0, 5, 0.9, 0.1, 0.5), (1.0, 0, 1.0, 0.0, 0.5), greedy)
    assert tokens == [BLOCK - 1, -1, -1, -1, int(logits[4].argmax())]


def test_zeros_of_both_signs_are_equals(device: torch.device) -> None:
    logits = torch.full((2, 40), -50.0)
    logits[:, 7], logits[:, 9] = -0.0, 0.0
    assert drawn(device, logits.bfloat16(), (0.0, 0, 1.0, 0.0, 0.0), (1.0, 1, 1.0, 0.0, 0.5)) == [7, 7]


def test_extremes_neither_overflow_nor_keep_nothing(device: torch.device) -> None:
    logits = random(1, 6, 90)
    logits[:, 50] = 8.0
    logits[:3, ::3] = torch.finfo(torch.float32).min
    best: list[Row] = [(1e-40, 0, 1.0, 0.0, 0.5), (1.0, 500, 1e-9, 0.0, 0.5), (0.01, 90, 0.999, 1e-30, BELOW_ONE)]
    rows = [*best, (1.0, 0, 1.0, 0.0, BELOW_ONE), (1.0, 0, 1.0, 0.0, 0.0), (100.0, 0, BELOW_ONE, 0.0, BELOW_ONE)]
    assert drawn(device, logits, *rows) == [50, 50, 50, 89, 0, 89]


def test_top_p_is_a_share_of_what_min_p_leaves(device: torch.device) -> None:
    weights = torch.full((2, 40), 0.05)
    weights[:, 0], weights[:, 1], weights[:, 2] = 1.0, 0.5, 0.3
    rows: list[Row] = [(1.0, top_k, 0.8, 0.2, BELOW_ONE) for top_k in (0, 30)]
    assert drawn(device, weights.log().bfloat16(), *rows) == [1, 1]


def test_a_uniform_number_that_was_rounded_to_1_gives_the_last_token_with_a_share(device: torch.device) -> None:
    logits = random(1, 2, BLOCK - 7).bfloat16()
    logits[1, 900:] = -1e9
    assert drawn(device, logits, *[(4.0, 0, 1.0, 0.0, 1.0)] * 2) == [BLOCK - 8, 899]


def test_equals_in_the_highest_of_16_ways_count_what_lies_above_them(device: torch.device) -> None:
    logits = torch.full((2, 40), -40.0)
    logits[:, 0], logits[:, 1:6] = 2.25, 2.234375  # 0x4010 and 0x400f as bfloat16
    rows: list[Row] = [(1.0, 3, 1.0, 0.0, BELOW_ONE), (1.0, 0, 0.5, 0.0, BELOW_ONE)]
    assert drawn(device, logits.bfloat16(), *rows) == [2, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_token_just_below_min_p_is_dropped_and_one_just_above_kept(device: torch.device, dtype: torch.dtype) -> None:
    logits = torch.full((4, 9), -40.0)
    logits[:2, 0], logits[:2, 5] = 3.0, 2.0  # a weight of 1 / e = 0.36788
    logits[2:, 0], logits[2:, 5] = -1.0, -2.0
    rows: list[Row] = [(1.0, 0, 1.0, min_p, BELOW_ONE) for min_p in (0.368, 0.3678, 0.368, 0.3678)]
    assert drawn(device, logits.to(dtype), *rows) == [0, 5, 0, 5]


def test_a_row_draws_the_same_alone_and_among_others(device: torch.device) -> None:
    logits = (3 * random(1, 2, 200)).bfloat16()
    rows: list[Row] = [(1.0, 9, 0.9, 0.0, 0.1), (1.0, 0, 0.99, 0.0, 0.7)]
    assert drawn(device, logits[1:], rows[1]) == drawn(device, logits, *rows)[1:]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    temperature=st.floats(0.125, 2.0, width=16),
    top_k=st.sampled_from([0, 1, 5, 40, 1000]),
    top_p=st.floats(0.0625, 1.0, width=16),
    min_p=st.sampled_from([0.0, 0.125, 0.5, 1.0]),
    steps=st.sampled_from([1.0, 8.0]),
)
def test_what_is_kept_is_what_the_hosts_sampler_keeps(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float, steps: float
) -> None:
    logits = (random(seed, 200) * steps).round() / steps  # with equals
    mask = reference.kept(logits[None], draws_of((temperature, top_k, top_p, min_p, 0.0)))[0]
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    tokens, weights = _limited(logits.numpy(), params)
    assert mask.nonzero().flatten().tolist() == np.sort(tokens[weights > 0]).tolist()


def test_the_reference_draws_as_often_as_the_weights_say() -> None:
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log().expand(1000, 4)
    rows: list[Row] = [(1.0, 3, 1.0, 0.0, (index + 0.5) / 1000) for index in range(1000)]
    counts = reference.sample(logits, draws_of(*rows)).bincount(minlength=4)
    assert (counts - torch.tensor([0, 444, 222, 333])).abs().max() <= 1
