"""Copies of KV blocks by the GPU itself, which addresses pinned host memory: all layers' keys and values in one launch.

Moves pairs * layers * 2 * bytes of a block, each read once and written once; the bus to the host decides. Copies that
touch a block which an earlier one touches wait for it: another launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.attention.cache import LayerCache

BLOCK = 1024  # words of 8 bytes, four loads of 16 bytes for each of 128 threads

Pair = tuple[int, int, bool]


def copy_blocks(pairs: Sequence[Pair], caches: Sequence[LayerCache], host_caches: Sequence[LayerCache]) -> None:
    """See kernels.block_copy.copy_blocks. Raises ValueError where the two have not one layout."""
    tensors = list(zip(_tensors(caches), _tensors(host_caches), strict=True))
    for device, host in tensors:
        if (device.dtype, device.stride(), device.shape[1:]) != (host.dtype, host.stride(), host.shape[1:]):
            raise ValueError("blocks can be copied between caches of one type and layout only: see allocate_on")
    first = tensors[0][0]
    words = first[0].nbytes // 8
    addresses = [tensor.data_ptr() for pair in tensors for tensor in pair]
    numbers = _upload([*addresses, *(number for pair in pairs for number in pair)], first.device)
    start = len(addresses)
    for group in independent(pairs):
        grid = len(group), len(tensors), triton.cdiv(words, BLOCK)
        _copy[grid](numbers, numbers[start:], words, BLOCK=BLOCK)
        start += 3 * len(group)


def independent(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """In order, as many at a time as touch different blocks."""
    group, devices, hosts = list[Pair](), set[int](), set[int]()
    for pair in pairs:
        if pair[0] in devices or pair[1] in hosts:
            yield group
            group, devices, hosts = [], set(), set()
        group.append(pair)
        devices.add(pair[0])
        hosts.add(pair[1])
    yield group


def _tensors(caches: Sequence[LayerCache]) -> list[torch.Tensor]:
    return [tensor for cache in caches for tensor in (cache.keys, cache.values)]


def _upload(numbers: list[int], device: torch.device) -> torch.Tensor:
    staged = torch.tensor(numbers, dtype=torch.int64, pin_memory=device.type == "cuda")
    return staged.to(device, non_blocking=True)


@triton.jit(do_not_specialize_on_alignment=["pair_ptr"])
def _copy(address_ptr, pair_ptr, words, BLOCK: tl.constexpr):
    """A part of one block of one tensor: addresses [tensors, 2] of the device's and the host's, pairs [pairs, 3]."""
    pair, tensor = pair_ptr + tl.program_id(0) * 3, address_ptr + tl.program_id(1) * 2
    offsets = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < words
    device = tl.load(tensor) + tl.load(pair) * words * 8
    host = tl.load(tensor + 1) + tl.load(pair + 1) * words * 8
    to_host = tl.load(pair + 2) != 0
    source = tl.multiple_of(tl.where(to_host, device, host).to(tl.pointer_type(tl.int64)), 16)
    target = tl.multiple_of(tl.where(to_host, host, device).to(tl.pointer_type(tl.int64)), 16)
    tl.store(target + offsets, tl.load(source + offsets, mask=mask), mask=mask)


def variants() -> list[Variant]:
    signature = {"address_ptr": "*i64", "pair_ptr": "*i64", "words": "i32", "BLOCK": "constexpr"}
    return [Variant("blocks", _copy, signature, {"BLOCK": BLOCK}, ("words",))]
