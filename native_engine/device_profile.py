"""A step of the largest shape, run once at the start so that it is known what a step takes of a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch

from kernels.native.program import StepArrays
from native_engine.cuda_graphs import Compute, pad
from native_engine.device_memory import Measured
from native_engine.sizing import ConfigurationError


def fill_prompts(step: StepArrays, rows: int, longest: int, vocabulary: int) -> None:
    """`rows` tokens of prompts as long as may be, with as many rows of logits as a step may have; written nowhere.
    The tokens differ, so that a mixture of experts has work for all of them."""
    length = max(longest, -(-rows // len(step.block_tables)))
    starts = [*range(0, rows, length), rows]
    step.query_starts[: len(starts)] = starts
    step.positions[:rows] = np.arange(rows) % longest
    step.token_ids[:rows] = np.arange(rows) % vocabulary
    step.slots[:rows], step.block_tables[:] = -1, 0
    sampled = min(rows, len(step.sample_rows))
    step.sample_rows[:sampled] = np.arange(rows - sampled, rows)
    step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled = rows, len(starts) - 1, sampled


def fill_decodes(step: StepArrays, vocabulary: int, count: int | None = None) -> None:
    """`count` single rows that are written nowhere; None: as many as there may be."""
    step.struct.num_rows = 0
    pad(step, len(step.block_tables) if count is None else count)
    step.token_ids[: step.struct.num_rows] = np.arange(step.struct.num_rows) % vocabulary


def largest_step(run: Callable[[int], object], rows: int, least: int) -> None:
    """Runs a step of `rows` tokens. Raises ConfigurationError where it does not fit, with the half, quarter ... that
    does, `least` at least."""
    if _fits(run, rows):
        return
    fits = next((count for count in _halves(rows, least) if _fits(run, count)), None)
    fitting = f"set --max-num-batched-tokens to at most {fits}" if fits else "fewer --max-num-seqs, or a larger GPU"
    raise ConfigurationError(f"a step of {rows} tokens does not fit the GPU beside the weights: {fitting}")


def _halves(rows: int, least: int) -> Iterator[int]:
    while rows // 2 >= least:
        rows //= 2
        yield rows


def _fits(run: Callable[[int], object], rows: int) -> bool:
    """Nothing else is kept by the allocator afterwards, nor by a step that failed."""
    torch.cuda.empty_cache()
    try:
        run(rows)
    except torch.OutOfMemoryError:
        return False
    return True


@contextmanager
def room_for_weights() -> Iterator[None]:
    """Turns the device's refusal while weights are loaded into what the settings can do about it."""
    try:
        yield
    except torch.OutOfMemoryError as fault:
        free, total = (each / 2**20 for each in torch.cuda.mem_get_info())
        raise ConfigurationError(
            f"the weights do not fit the GPU: {torch.cuda.memory_allocated() / 2**20:.0f} of {total:.0f} MiB are "
            f"filled with them, {free:.0f} are free, and there are more to come: quantise them "
            "(--quantization fp8, int8 or int4), or take a GPU with more memory"
        ) from fault


def measured(weight_bytes: int) -> Measured:
    """As the device is now. What the allocator holds is this process's; the rest of what is not free is not."""
    free, total = torch.cuda.mem_get_info()
    working = max(torch.cuda.memory_reserved() - weight_bytes, 0)
    return Measured(total, free, weight_bytes, working)


def graphs_take(sizes: Sequence[int], record: Callable[[int], Compute]) -> int:
    """Bytes, by those of the two largest, which are recorded and thrown away: each other one takes what the second took
    beside the first."""
    kept, left = [], [torch.cuda.mem_get_info()[0]]
    for size in sorted(sizes, reverse=True)[:2]:
        kept.append(record(size))
        left.append(torch.cuda.mem_get_info()[0])
    first, *second = (max(before - after, 0) for before, after in pairwise(left))
    return first + (len(sizes) - 1) * sum(second)
