"""Moves KV blocks between a device and host memory."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.attention.cache import LayerCache
from kernels.block_copy import reference
from kernels.device import DeviceOp, interpreting

_on_device = DeviceOp[None]("block_copy", "copy_blocks", reference.copy_blocks)


def copy_blocks(
    pairs: Sequence[tuple[int, int, bool]], caches: Sequence[LayerCache], host_caches: Sequence[LayerCache]
) -> None:
    """Copies blocks of every layer, as if one after another: pairs of (block of `caches`, block of `host_caches`,
    whether it goes to the host). The caches of a GPU and those of the host have one layout and type, and the host's
    memory is pinned; returns before the copies are made, which later work on the device waits for. Raises ValueError
    where the layouts differ."""
    if not pairs or not caches:
        return
    if caches[0].keys.is_cuda or interpreting():
        _on_device(pairs, caches, host_caches)
    else:
        reference.copy_blocks(pairs, caches, host_caches)
