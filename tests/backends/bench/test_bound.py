"""The throughput that no server can exceed, by hand-made figures."""

from __future__ import annotations

import sys

import pytest

from backends.bench.bound import Rates, Work, bound, copy_bandwidth, product_rate, work_of
from backends.capacity import SHAPES, active_parameters, step_weight_bytes
from tests.backends.bench.reports import report

SHAPE = SHAPES["qwen3-8b"]
WEIGHTS = step_weight_bytes(SHAPE, 1, "BF16")
KV = 147456  # bytes of a token: 2 x 36 layers x 8 heads x 128 x 2 bytes
LAYERS, HEAD = active_parameters(SHAPE), SHAPE.vocab_size * SHAPE.hidden_size
MEMORY, PRODUCTS, ALONE = "the memory", "the products", "the time of one request alone"


def test_without_products_it_is_the_planners_batch_by_step_time() -> None:
    alone = bound(1, Work(0, 0, 100), SHAPE, "BF16", Rates(1e12))
    assert alone.tok_s == pytest.approx(1e12 / (WEIGHTS + 50 * KV))
    many = bound(16, Work(960, 0, 80), SHAPE, "BF16", Rates(1e12))
    assert many.tok_s == pytest.approx(16 * 1e12 / (WEIGHTS + 16 * 1000 * KV))
    assert many.set_by == MEMORY


def test_a_prompt_keeps_one_alone_from_its_answer() -> None:
    """2 s of products before 9 further steps: however quick, one after the other."""
    operations = 2 * (LAYERS * 1000 + HEAD) / 2.0
    found = bound(1, Work(1000, 0, 10), SHAPE, "BF16", Rates(1e12, operations))
    step = (WEIGHTS + 1005 * KV) / 1e12
    assert found.set_by == ALONE
    assert found.tok_s == pytest.approx(10 / (2.0 + 9 * step))


def test_many_are_bound_by_what_all_of_their_products_take() -> None:
    found = bound(64, Work(1000, 0, 10), SHAPE, "BF16", Rates(1e15, 1e12))
    assert found.set_by == PRODUCTS
    assert found.tok_s == pytest.approx(10 * 1e12 / (2 * (LAYERS * 1009 + HEAD * 10)))


def test_what_a_prefix_cache_held_is_read_and_not_computed() -> None:
    cached, computed = (
        bound(64, work, SHAPE, "BF16", Rates(1e13, 1e12)) for work in (Work(10, 990, 10), Work(1000, 0, 10))
    )
    assert cached.tok_s > 40 * computed.tok_s
    reading = [bound(64, work, SHAPE, "BF16", Rates(1e12)).tok_s for work in (Work(10, 990, 10), Work(1000, 0, 10))]
    assert reading[0] == pytest.approx(reading[1])


def test_the_bound_of_a_mixture_counts_the_experts_that_a_batch_touches() -> None:
    """With next to no KV cache a dense model serves 16 in the time of one; of experts 16 touch more than one does."""
    work = Work(0, 0, 1)
    dense, mixture = (
        bound(16, work, SHAPES[name], "BF16", Rates(1e12)).tok_s
        / bound(1, work, SHAPES[name], "BF16", Rates(1e12)).tok_s
        for name in ("qwen3-8b", "qwen3-30b-a3b")
    )
    assert dense == pytest.approx(16, rel=1e-3)
    assert mixture < 4


def test_the_work_of_a_run_is_the_mean_of_its_requests() -> None:
    assert work_of(report(3)) == Work(64, 0, 21)


def test_a_copy_and_a_product_tell_what_a_machine_can_have() -> None:
    assert 1e8 < copy_bandwidth(8 << 20, 2) < 1e13
    assert 1e7 < (product_rate(64, 2) or 0) < 1e14


def test_without_numpy_nothing_is_said_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert product_rate() is None
