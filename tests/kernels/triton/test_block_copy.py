"""Blocks on their way between a device and the host."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.attention.cache import LayerCache, allocate, allocate_on
from kernels.block_copy import copy_blocks, reference
from kernels.block_copy.triton_kernel import BLOCK, independent
from kernels.block_copy.triton_kernel import copy_blocks as copy_on_device

LAYERS, BLOCKS, HOST_BLOCKS = 2, 4, 3

pairs_of_blocks = st.lists(
    st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, HOST_BLOCKS - 1), st.booleans()), min_size=1, max_size=6
)


def tiers(device: torch.device, dtype: torch.dtype, head_dim: int = 8) -> tuple[list[LayerCache], list[LayerCache]]:
    """Every number another one."""
    host = torch.device("cpu")
    places = [(device, BLOCKS)] * LAYERS + [(host, HOST_BLOCKS)] * LAYERS
    caches = [allocate_on(place, blocks, 2, head_dim, dtype) for place, blocks in places]
    for index, cache in enumerate(caches):
        for part, tensor in enumerate((cache.keys, cache.values)):
            numbers = torch.randint(0, 120, tensor.shape, generator=torch.Generator().manual_seed(2 * index + part))
            tensor.copy_(numbers.to(dtype))
    if device.type == "cuda":
        caches[LAYERS:] = [_pinned(cache) for cache in caches[LAYERS:]]
    return caches[:LAYERS], caches[LAYERS:]


def _pinned(cache: LayerCache) -> LayerCache:
    return LayerCache(cache.keys.transpose(2, 3).pin_memory().transpose(2, 3), cache.values.pin_memory())


def contents(caches: list[LayerCache]) -> torch.Tensor:
    return torch.stack([part.float().cpu() for cache in caches for part in (cache.keys, cache.values.mT)])


@settings(max_examples=15, deadline=None)
@given(pairs_of_blocks, st.sampled_from([torch.float32, torch.bfloat16, torch.float8_e4m3fn]))
def test_blocks_move_as_if_one_after_another(
    device: torch.device, pairs: list[tuple[int, int, bool]], dtype: torch.dtype
) -> None:
    caches, host_caches = tiers(device, dtype)
    expected, host_expected = tiers(torch.device("cpu"), dtype)
    copy_on_device(pairs, caches, host_caches)
    reference.copy_blocks(pairs, expected, host_expected)
    if device.type == "cuda":
        torch.cuda.synchronize()
    assert torch.equal(contents(caches), contents(expected))
    assert torch.equal(contents(host_caches), contents(host_expected))


def test_a_block_of_many_programs_and_a_ragged_end_is_copied_whole(device: torch.device) -> None:
    head_dim = BLOCK // 16 + 24
    caches, host_caches = tiers(device, torch.float32, head_dim)
    assert caches[0].keys[0].nbytes // 8 % BLOCK
    copy_on_device([(1, 2, True), (3, 0, False)], caches, host_caches)
    if device.type == "cuda":
        torch.cuda.synchronize()
    for cache, host in zip(caches, host_caches, strict=True):
        assert torch.equal(cache.keys[1].cpu(), host.keys[2])
        assert torch.equal(cache.values[3].cpu(), host.values[0])


@given(pairs_of_blocks)
def test_what_goes_in_one_launch_touches_no_block_twice_and_nothing_overtakes(
    pairs: list[tuple[int, int, bool]],
) -> None:
    groups = list(independent(pairs))
    assert [pair for group in groups for pair in group] == pairs
    for group in groups:
        for side in (0, 1):
            assert len({pair[side] for pair in group}) == len(group)


def test_copies_of_different_blocks_need_one_launch() -> None:
    assert len(list(independent([(0, 1, True), (1, 2, False), (2, 0, True)]))) == 1


def test_caches_of_another_layout_or_type_are_refused(device: torch.device) -> None:
    caches, host_caches = tiers(device, torch.bfloat16)
    in_layout_of_cpu = [allocate(HOST_BLOCKS, 2, 8, torch.bfloat16) for _ in range(LAYERS)]
    _, of_other_type = tiers(device, torch.float16)
    for wrong in (in_layout_of_cpu, of_other_type):
        with pytest.raises(ValueError, match="one type and layout"):
            copy_on_device([(0, 0, True)], caches, wrong)
    copy_blocks([(0, 0, True)], caches, host_caches)
    assert torch.equal(host_caches[0].keys[0].float(), caches[0].keys[0].float().cpu())


def test_no_copies_are_no_work(device: torch.device) -> None:
    caches, host_caches = tiers(device, torch.float32)
    before = contents(host_caches)
    copy_blocks([], caches, host_caches)
    copy_blocks([(0, 0, True)], [], [])
    assert torch.equal(contents(host_caches), before)
