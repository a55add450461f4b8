"""The arithmetic of what an op must move, against figures counted by hand."""

from __future__ import annotations

from kernels import floors
from kernels.floors import Work


def test_element_wise_ops_read_and_write_each_number_once() -> None:
    assert floors.rms_norm(2, 8, 2, residual=False) == Work(2 * 8 * 2 * 2 + 32)
    assert floors.rms_norm(2, 8, 2, residual=True) == Work(2 * 8 * 2 * 3 + 32)
    assert floors.gated(2, 8, 2) == Work(2 * 16 * 2 + 2 * 8 * 2)
    assert floors.soft_cap(2, 8, 4) == Work(2 * 8 * 4 * 2)
    assert floors.one_token_each(3, 100, 2) == Work(3 * 204)
    assert floors.block_copy(3, 1000) == Work(6000)


def test_a_rotation_reads_a_row_and_writes_queries_and_cache() -> None:
    read = (4 + 2 + 2) * 64 * 2 + 2 * 32 * 4
    written = 4 * 64 * 2 + 2 * 2 * 64 * 1
    assert floors.rotary(3, 4, 2, 64, itemsize=2, cache_itemsize=1) == Work(3 * (read + written))


def test_a_decode_reads_all_its_context_once_for_all_heads() -> None:
    work = floors.attention([1000, 24], [1, 1], heads=32, kv_heads=8, head_dim=128, itemsize=2, cache_itemsize=2)
    assert work.bytes == 1024 * 2 * 8 * 128 * 2 + 2 * 2 * 32 * 128 * 2
    assert work.operations == 2 * 2 * 32 * 128 * 1024


def test_a_prompt_is_computed_below_the_diagonal() -> None:
    whole = floors.attention([4], [4], 1, 1, 1, 2, 2)
    assert whole.operations == 4 * (1 + 2 + 3 + 4)
    second_half = floors.attention([4], [2], 1, 1, 1, 2, 2)
    assert second_half.operations == 4 * (3 + 4)
    assert second_half.bytes == 4 * 2 * 2 + 2 * 2 * 2


def test_products_read_their_weights_once() -> None:
    assert floors.linear(3, 10, 20, weight_bytes=500, itemsize=2) == Work(500 + 3 * 30 * 2, 2 * 3 * 10 * 20)
    work = floors.moe(4, hidden=64, width=16, top_k=2, experts=5, expert_bytes=1000, itemsize=2)
    assert work == Work(5 * 1000 + 2 * 4 * 64 * 2, 4 * 2 * 2 * (2 * 16 * 64 + 64 * 16))
