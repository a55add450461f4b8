from __future__ import annotations

import pytest

from backends.capacity import WEIGHT_BITS, ModelShape, model_weight_bytes

QWEN3_0_6B = ModelShape(151936, 1024, 3072, 28, 16, 8, 128)
QWEN3_30B = ModelShape(151936, 2048, 768, 48, 32, 4, 128, num_experts=128)


def test_a_known_model_has_the_parameters_that_its_card_tells() -> None:
    without_head = model_weight_bytes(QWEN3_0_6B) - 151936 * 1024 * 2  # it is tied: the card counts the table once
    assert without_head / 2 == pytest.approx(0.596e9, rel=0.005)
    assert model_weight_bytes(QWEN3_30B) / 2 == pytest.approx(30.5e9, rel=0.005)


def test_each_kind_of_weight_is_counted_in_its_own_format() -> None:
    shape = ModelShape(1000, 64, 128, 2, 2, 1, 32)
    layers = 2 * (128 * 64 + 64 * 64 + 3 * 64 * 128)
    norms = 5 * 64 * 4
    assert model_weight_bytes(shape, "Q4_0", head="Q8_0") == layers * 4.5 / 8 + 64000 * (8.5 / 8 + 2) + norms
    assert model_weight_bytes(shape, "F32", embedding="F32") == (layers + 2 * 64000) * 4 + norms


def test_a_scale_for_each_row_is_counted_once_a_row() -> None:
    shape = ModelShape(0, 64, 128, 1, 2, 1, 32)
    rows, weights = 128 + 64 + 256 + 64, 128 * 64 + 64 * 64 + 3 * 64 * 128
    assert model_weight_bytes(shape, "INT8") == weights + 4 * rows + 3 * 64 * 4


def test_every_format_is_smaller_than_float32_and_larger_than_four_bits() -> None:
    assert all(4 <= bits <= 32 for bits, _ in WEIGHT_BITS.values())
