"""Weights for the GPU's kernels are what their raw rows stand for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear.device_formats import device_weight
from kernels.linear.device_weight import narrowed, pack, unpack
from kernels.linear.formats import FORMATS, OWN_GROUPS, encode
from kernels.testing import assert_close
from tests.kernels.weights import plain_weight, raw_weight

CPU = torch.device("cpu")
QUANTISED = [name for name in FORMATS if name not in ("F32", "F16", "BF16")]


@settings(max_examples=60, deadline=None)
@given(type_name=st.sampled_from(QUANTISED), n=st.integers(1, 7), blocks=st.integers(1, 3))
def test_a_weight_stands_for_what_its_raw_rows_do(type_name: str, n: int, blocks: int) -> None:
    k = blocks * max(FORMATS[type_name].block, 32)
    raw = raw_weight(type_name, n, k)
    weight = device_weight(type_name, raw, k, CPU)
    assert (weight.n, weight.k) == (n, k)
    assert_close(weight.dequantised().numpy(), plain_weight(raw, type_name, n, k).numpy(), 4e-7)


@pytest.mark.parametrize("type_name", QUANTISED)
def test_a_weight_takes_hardly_more_bytes_than_its_file(type_name: str) -> None:
    raw = raw_weight(type_name, 64, 1024)
    held = {"Q5_0": 8.5, "Q5_1": 9, "Q5_K": 10, "Q6_K": 10, "MXFP4": 8.5, "Q4_K": 6, "Q4_1": 6}.get(type_name)
    bits = held or raw.nbytes * 8 / (64 * 1024) + (1 if type_name == "INT4_32" else 0.6)
    assert device_weight(type_name, raw, 1024, CPU).nbytes * 8 <= bits * 64 * 1024


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 5), k=st.integers(1, 300))
def test_what_is_packed_is_unpacked(n: int, k: int) -> None:
    codes = torch.randint(-8, 8, (n, k), dtype=torch.int8)
    assert torch.equal(unpack(pack(codes), k), codes)


def test_zeros_of_eight_need_no_offsets_and_others_do() -> None:
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) % 16
    assert device_weight("INT4", encode("INT4", codes, np.float32(0.5)), 32, CPU).offsets is None
    assert device_weight("INT4", encode("INT4", codes, np.float32(0.5), np.array([[7]])), 32, CPU).offsets is not None


def test_scales_are_held_in_the_narrowest_type_that_keeps_them() -> None:
    assert narrowed(torch.tensor([1 + 2.0**-10])).dtype == torch.float16
    assert narrowed(torch.tensor([2.0**100])).dtype == torch.bfloat16
    assert narrowed(torch.tensor([1 + 2.0**-20])).dtype == torch.float32


def test_sorted_columns_are_put_back_where_their_groups_stay_whole() -> None:
    raw = raw_weight("INT4_32", 3, 96)
    plain = device_weight("INT4_32", raw, 96, CPU).dequantised()
    order = np.concatenate([np.arange(64, 96)[::-1], np.arange(32), np.arange(32, 64)]).astype(np.int32)
    put_back = device_weight("INT4_32", raw, 96, CPU, order).dequantised()
    assert torch.equal(put_back[:, torch.from_numpy(order)], plain)
    with pytest.raises(ValueError, match="dequantise this weight"):
        device_weight("INT4_32", raw, 96, CPU, np.roll(order, 1))


def test_what_has_no_form_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="type IQ2_XS have no form"):
        device_weight("IQ2_XS", np.zeros((1, 1), np.uint8), 32, CPU)
    with pytest.raises(ValueError, match="groups of 64, but the row has 96"):
        device_weight("INT4_64", np.zeros((1, 54), np.uint8), 96, CPU)


def test_every_format_of_ours_has_a_form() -> None:
    assert set(OWN_GROUPS) < set(QUANTISED)
