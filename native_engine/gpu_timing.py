"""Times on a GPU, and the ceilings that it has: how quickly it copies, and how quickly it multiplies."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch

from kernels.floors import Work

COPIED_BYTES = 2**30
SQUARE = 8192  # rows and columns of the product that is the ceiling
FLUSHED_BYTES = 2**28  # more than any second-level cache holds


class Ceilings(NamedTuple):
    """Measured ones. bytes_per_s: read and written by a copy; operations_per_s: of a bfloat16 product."""

    bytes_per_s: float
    operations_per_s: float

    def seconds(self, work: Work) -> float:
        """The least in which the work can be done: bytes and operations go on side by side."""
        return max(work.bytes / self.bytes_per_s, work.operations / self.operations_per_s)


Clock = Callable[[Callable[[], object]], float]


def measure_ceilings(device: torch.device, clock: Clock, scale: int = 1) -> Ceilings:
    """`scale` divides the sizes, for machines on which a second is too long."""
    source = torch.empty(COPIED_BYTES // scale, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = clock(lambda: target.copy_(source))
    side = SQUARE // scale
    a, b = (torch.randn(side, side, dtype=torch.bfloat16, device=device) for _ in range(2))
    multiplied = clock(lambda: a @ b)
    return Ceilings(2 * source.nbytes / copied, 2 * side**3 / multiplied)


def seconds_in_graph(call: Callable[[], object], repetitions: int = 20) -> float:
    """The median time of one call, replayed as a CUDA graph as the engine does, with the second-level cache emptied
    before each: what it reads was last read a whole model ago."""
    call()  # builds its kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    scratch = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    times: list[float] = []
    for _ in range(repetitions):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        scratch.zero_()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(float(start.elapsed_time(end)) / 1000)
    return statistics.median(times)


def busy_seconds(call: Callable[[], object]) -> float:
    """For how long the GPU computes while `call` runs, by its own record of kernels; 0 where it gives none."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return float(sum(event.self_device_time_total for event in profile.key_averages())) / 1e6
