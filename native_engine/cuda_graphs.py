"""Steps in which every sequence has one row, recorded once for a few sizes and replayed by one call each.

A step runs in the graph of the next larger size; the rows that fill it up are computed and written nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import numpy as np
import torch

from kernels.device import DeviceTensor
from kernels.native.program import StepArrays

Compute = Callable[[], DeviceTensor]
Recorder = Callable[[Compute], Compute]


def graph_sizes(max_num_seqs: int) -> list[int]:
    """1, 2, 4, 8, 16, 24, then closer to each other than a quarter: a decode step reads the weights whatever its size,
    so what padding costs is little, and each size costs memory and time at the start."""
    steps = [1, 2, 4, *range(8, 64, 8), *range(64, 128, 16), *range(128, 256, 32), *range(256, 4096, 64)]
    return sorted({*(size for size in steps if size < max_num_seqs), max_num_seqs})


class DecodeGraphs:
    """`record(size)` makes what replays a step of that size. The largest comes first: the others fit in its memory."""

    def __init__(self, sizes: Iterable[int], record: Callable[[int], Compute]) -> None:
        self._replays = {size: record(size) for size in sorted(sizes, reverse=True)}
        self._sizes = sorted(self._replays)

    def size_for(self, step: StepArrays) -> int | None:
        """Of the graph that a step fits; None for one with prompts or drafts, or larger than any."""
        count = step.struct.num_rows
        if not count == step.struct.num_sequences == step.struct.num_sampled or count > self._sizes[-1]:
            return None
        return self._sizes[bisect_left(self._sizes, count)]

    def replay(self, size: int) -> DeviceTensor:
        return self._replays[size]()


def pad(step: StepArrays, size: int) -> None:
    """Fills a step of single rows up to `size`: rows of one token each, whose slot is -1."""
    count = step.struct.num_rows
    for array, value in ((step.token_ids, 0), (step.positions, 0), (step.slots, -1), (step.block_tables, 0)):
        array[count:size] = value
    step.query_starts[count : size + 1] = np.arange(count, size + 1)
    step.sample_rows[count:size] = np.arange(count, size)
    step.struct.num_rows = step.struct.num_sequences = step.struct.num_sampled = size


def cuda_recorder() -> Recorder:
    """Graphs that share one pool of memory, since no two of them run at once."""
    pool = torch.cuda.graph_pool_handle()

    def record(compute: Compute) -> Compute:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compute()  # builds and times the kernels of this size
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Another thread may ask the device meanwhile: that of the ranks' sums does.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            result = compute()

        def replay() -> DeviceTensor:
            graph.replay()
            return result

        return replay

    return record
