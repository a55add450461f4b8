"""The counter of traffic itself, on kernels whose traffic is known."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernels.device import interpreting
from tests.kernels.triton.toy_kernels import copy, product
from tests.kernels.triton.traffic import counted

pytestmark = pytest.mark.skipif(not interpreting(), reason="counts in the interpreter")


@triton.jit
def _masked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = (offsets < n) & (n > 0)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def _added(x_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(x_ptr + tl.arange(0, BLOCK), 1.0)


def test_what_several_programs_read_is_asked_for_by_each_and_moved_once() -> None:
    x, y = torch.zeros(64), torch.zeros(64)
    with counted() as traffic:
        copy[(3,)](x, y, 1, BLOCK=64)
    assert (traffic.asked, traffic.distinct, traffic.launches) == (3 * 512, 512, 1)


def test_another_launch_moves_the_same_again() -> None:
    x, y = torch.zeros(64), torch.zeros(64)
    with counted() as traffic:
        for _ in range(2):
            copy[(1,)](x, y, 1, BLOCK=64)
    assert (traffic.asked, traffic.distinct, traffic.launches) == (1024, 1024, 2)


def test_numbers_far_apart_cost_a_sector_each() -> None:
    x, y = torch.zeros(64 * 8), torch.zeros(64)
    with counted() as traffic:
        copy[(1,)](x, y, 8, BLOCK=64)
    assert traffic.distinct == 64 * 32 + 256


def test_lanes_that_are_masked_move_nothing() -> None:
    x, y = torch.zeros(64), torch.zeros(64)
    with counted() as traffic:
        _masked[(1,)](x, y, 24, BLOCK=64)
    assert traffic.distinct == 2 * 3 * 32


def test_an_atomic_reads_and_writes() -> None:
    with counted() as traffic:
        _added[(1,)](torch.zeros(16), BLOCK=16)
    assert traffic.distinct == 2 * 64


def test_a_product_counts_two_operations_for_each_multiplication_and_nothing_is_counted_afterwards() -> None:
    x, w, y = torch.zeros(16, 128), torch.zeros(16, 128), torch.zeros(16, 16)
    with counted() as traffic:
        product[(1,)](x, w, y, 128, BLOCK=16)
    assert traffic.operations == 2 * 16 * 16 * 128
    product[(1,)](x, w, y, 128, BLOCK=16)
    assert traffic.operations == 2 * 16 * 16 * 128
