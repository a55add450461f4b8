"""The row layouts of our own formats: what is encoded is what is decoded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear.formats import OWN_GROUPS, decode, encode
from tests.kernels.weights import random_parts


@settings(max_examples=40, deadline=None)
@given(
    type_name=st.sampled_from(list(OWN_GROUPS)),
    n=st.integers(1, 9),
    blocks=st.integers(1, 4),
    scale_type=st.sampled_from([torch.float16, torch.bfloat16]),
)
def test_what_is_encoded_is_decoded_exactly(type_name: str, n: int, blocks: int, scale_type: torch.dtype) -> None:
    k = blocks * (OWN_GROUPS[type_name] or 32)
    codes, scales, zeros = random_parts(type_name, n, k, scale_type)
    wide = [np.repeat(each, k // each.shape[1], axis=1).astype(np.float32) for each in (scales, zeros)]
    plain = codes.astype(np.float32)
    if type_name.startswith("INT4"):
        plain -= wide[1]
    if type_name.startswith("FP8"):
        plain = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(decode(type_name, encode(type_name, codes, scales, zeros), k), plain * wide[0])


def test_one_scale_of_a_tensor_stands_in_every_row_and_int4_without_zeros_is_symmetric() -> None:
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) % 16
    raw = encode("INT4", codes, np.float32(0.5))
    assert raw.shape == (2, 4 + 16)
    assert np.array_equal(decode("INT4", raw[1:], 32), 0.5 * (codes[1:].astype(np.float32) - 8))


def test_every_code_of_fp8_is_what_torch_reads() -> None:
    codes = np.array([code for code in range(256) if code & 0x7F != 0x7F], np.uint8)[None]
    expected = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(decode("FP8_E4M3", encode("FP8_E4M3", codes, np.float32(1)), codes.shape[1]), expected)


def test_what_a_format_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="not numbers"):
        encode("FP8_E4M3", np.full((1, 32), 0xFF, np.uint8), np.float32(1))
    with pytest.raises(ValueError, match="up to 31, not 32"):
        encode("INT4", np.zeros((1, 32), np.uint8), np.float32(1), np.array([[32]]))
