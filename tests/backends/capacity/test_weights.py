from __future__ import annotations

import random

import pytest

from backends.capacity import (
    SHAPES,
    WEIGHT_BITS,
    ModelShape,
    active_parameters,
    experts_read,
    experts_read_skewed,
    model_weight_bytes,
    prefill_seconds,
    step_weight_bytes,
)

QWEN3_0_6B, QWEN3_8B, QWEN3_30B = (SHAPES[f"qwen3-{size}"] for size in ("0.6b", "8b", "30b-a3b"))


def test_a_known_model_has_the_parameters_that_its_card_tells() -> None:
    without_head = model_weight_bytes(QWEN3_0_6B) - 151936 * 1024 * 2  # it is tied: the card counts the table once
    assert without_head / 2 == pytest.approx(0.596e9, rel=0.005)
    assert model_weight_bytes(QWEN3_8B) / 2 == pytest.approx(8.19e9, rel=0.005)
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


def test_a_step_reads_every_weight_but_the_table_of_embeddings() -> None:
    table = 151936 * 4096 * 2
    assert step_weight_bytes(QWEN3_8B, 1) == step_weight_bytes(QWEN3_8B, 256) == model_weight_bytes(QWEN3_8B) - table
    assert step_weight_bytes(QWEN3_8B, 1, "INT4_128", head="INT8") < step_weight_bytes(QWEN3_8B, 1) * 0.3


def test_a_step_reads_the_experts_that_its_tokens_choose() -> None:
    expert = 3 * 2048 * 768 * 2 * 48
    table = 151936 * 2048 * 2
    alone = step_weight_bytes(QWEN3_30B, 1)
    assert alone == pytest.approx(model_weight_bytes(QWEN3_30B) - table - 120 * expert)
    of_two = 8 + 8 * (1 - 8 / 128)  # the second token finds each of its own among the first one's with 8 / 128
    assert step_weight_bytes(QWEN3_30B, 2) - alone == pytest.approx((of_two - 8) * expert)
    assert step_weight_bytes(QWEN3_30B, 1000) == pytest.approx(model_weight_bytes(QWEN3_30B) - table)


def test_a_prompt_is_multiplied_by_the_active_parameters_of_the_layers() -> None:
    assert active_parameters(QWEN3_8B) == 36 * (4096 * (48 + 32) * 128 + 3 * 4096 * 12288)
    assert active_parameters(QWEN3_30B) + 2 * 151936 * 2048 == pytest.approx(3.3e9, rel=0.02)  # as its card tells
    assert prefill_seconds(2048, active_parameters=1e9, operations_per_s=4.096e12) == 1.0


def test_with_favourites_a_step_reads_fewer_experts_and_at_no_skew_as_many() -> None:
    shape = SHAPES["qwen3-30b-a3b"]
    for tokens in (1, 2, 16, 300):
        uniform = experts_read(shape, tokens)
        assert experts_read_skewed(shape, tokens, 0) == pytest.approx(uniform)
    by_skew = [experts_read_skewed(shape, 16, exponent) for exponent in (0, 0.5, 1, 2)]
    assert by_skew == sorted(set(by_skew), reverse=True)
    assert experts_read_skewed(shape, 1) == pytest.approx(8)
    assert experts_read_skewed(shape, 10**6) == pytest.approx(128)


def test_where_a_token_takes_all_experts_skew_makes_no_difference() -> None:
    shape = SHAPES["qwen3-30b-a3b"]._replace(num_experts=8)
    assert experts_read_skewed(shape, 1) == 8


def test_drawing_experts_by_popularity_reads_as_many_as_is_computed() -> None:
    """Each token draws without putting back: the keys random^(1/popularity), the largest win (Efraimidis, Spirakis)."""
    shape, draw = SHAPES["qwen3-30b-a3b"], random.Random(7)

    def chosen() -> set[int]:
        keys = sorted(range(128), key=lambda expert: draw.random() ** (expert + 1), reverse=True)
        return set(keys[:8])

    for tokens in (4, 32):
        seen = [len(set().union(*(chosen() for _ in range(tokens)))) for _ in range(60)]
        assert sum(seen) / len(seen) == pytest.approx(experts_read_skewed(shape, tokens), rel=0.03)
