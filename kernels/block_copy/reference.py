"""The truth: one block after another, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.attention.cache import LayerCache


def copy_blocks(
    pairs: Sequence[tuple[int, int, bool]], caches: Sequence[LayerCache], host_caches: Sequence[LayerCache]
) -> None:
    """See kernels.block_copy.copy_blocks."""
    for cache, host_cache in zip(caches, host_caches, strict=True):
        for device, host, to_host in pairs:
            for there, here in ((cache.keys, host_cache.keys), (cache.values, host_cache.values)):
                if to_host:
                    here[host].copy_(there[device])
                else:
                    there[device].copy_(here[host])
