"""What a cache and a program's buffers take before they are used: nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import psutil
import pytest
import torch

from kernels.attention.cache import allocate
from kernels.memory import zeroed

MIB = 2**20


def grown(work: Callable[[], object]) -> float:
    """MiB that the process grew by while a thread did `work`; before, it freed a large block, as a loader does."""
    grew = []

    def measured() -> None:
        large = np.ones(30 * MIB, np.uint8)
        del large
        before = psutil.Process().memory_info().rss
        kept = work()
        grew.append((psutil.Process().memory_info().rss - before) / MIB)
        del kept

    thread = threading.Thread(target=measured)
    thread.start()
    thread.join()
    return grew[0]


@pytest.mark.skipif(sys.platform != "linux", reason="counts resident pages as Linux does")
def test_a_cache_of_many_layers_is_resident_only_where_it_was_written() -> None:
    def layers() -> list[object]:
        caches = [allocate(1024, 3, 64, torch.float16) for _ in range(16)]  # 6 MiB of keys, 6 of values each
        caches[0].keys.fill_(1)
        return caches

    assert grown(layers) < 16


def test_zeroed_memory_is_zero_writable_and_aligned_for_vectors() -> None:
    memory = zeroed(5000)
    assert memory.shape == (5000,)
    assert not memory.any()
    memory[:] = 7
    assert memory.ctypes.data % 64 == 0
    assert zeroed(0).nbytes == 0
