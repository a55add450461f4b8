"""How rank 0, which schedules and samples, takes the others along: each step's arrays, and copies of the host tier.

A message is one broadcast of int32 numbers, and a second one where it is long. A rank that waits for one sleeps in the
kernel, and may do so for as long as nobody asks anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from kernels.attention.cache import BLOCK_SIZE
from kernels.native.program import StepArrays
from native_engine.batch import RunnerLost
from native_engine.host_tier import Copy
from native_engine.parallel.group import Group

_HEADER = 2  # what it is, and how many numbers follow
_FIRST = 4096  # numbers in the first broadcast, which holds a step of decodes

Numbers = npt.NDArray[np.int32]


class Message(IntEnum):
    """What a rank is told to do."""

    STOP = 0
    STEP = 1
    COPY = 2


class Follower(Protocol):
    """What computes at the other ranks."""

    step: StepArrays

    def copy(self, copies: list[Copy]) -> None: ...

    def follow(self) -> None:
        """Computes the step that the arrays describe."""
        ...


@contextmanager
def together(group: Group, step: StepArrays) -> Iterator[None]:
    """Around rank 0's forward pass: the other ranks take the same step.

    Raises RunnerLost for whatever is raised inside: the ranks no longer stand at the same place.
    """
    if group.size == 1:
        yield
        return
    try:
        _send(group, Message.STEP, _numbers_of(step))
        yield
    except Exception as fault:
        raise RunnerLost(f"a rank is lost, or the ranks are no longer at the same step ({fault})") from fault


def send_copies(group: Group, copies: list[Copy]) -> None:
    """From rank 0: the other ranks make them too. Raises RunnerLost where one does not answer."""
    if group.size == 1 or group.rank > 0:
        return
    numbers = np.array([(each.device, each.host, each.to_host) for each in copies], np.int32)
    try:
        _send(group, Message.COPY, numbers.reshape(-1))
    except RuntimeError as fault:
        raise RunnerLost(f"a rank is lost ({fault})") from fault


def send_stop(group: Group) -> None:
    """The last word."""
    _send(group, Message.STOP, np.empty(0, np.int32))


def follow(group: Group, runner: Follower) -> None:
    """What the other ranks do: as they are told, until rank 0 says stop. Raises what computing raises, and RuntimeError
    where rank 0 is gone."""
    while True:
        message, numbers = _receive(group)
        if message is Message.STOP:
            return
        if message is Message.COPY:
            runner.copy(
                [Copy(device, host, bool(to_host)) for device, host, to_host in numbers.reshape(-1, 3).tolist()]
            )
        else:
            _fill(runner.step, numbers)
            runner.follow()


def _numbers_of(step: StepArrays) -> Numbers:
    """Three counts, then what is in use of each array, the block tables last."""
    struct = step.struct
    blocks = int(step.positions[: struct.num_rows].max(initial=0)) // BLOCK_SIZE + 1
    tables = step.block_tables[: struct.num_sequences, :blocks]
    counts = np.array([struct.num_rows, struct.num_sequences, struct.num_sampled], np.int32)
    return np.concatenate([counts, *_used(step), tables.reshape(-1)])


def _fill(step: StepArrays, numbers: Numbers) -> None:
    """The inverse."""
    struct, start = step.struct, 3
    struct.num_rows, struct.num_sequences, struct.num_sampled = numbers[:start].tolist()
    for array in _used(step):
        array[:] = numbers[start : start + len(array)]
        start += len(array)
    tables = numbers[start:].reshape(struct.num_sequences, -1)
    step.block_tables[: struct.num_sequences, : tables.shape[1]] = tables


def _used(step: StepArrays) -> list[Numbers]:
    """What the step uses of each flat array."""
    rows, sequences, sampled = step.struct.num_rows, step.struct.num_sequences, step.struct.num_sampled
    by_row = (step.token_ids, step.positions, step.slots)
    return [*(array[:rows] for array in by_row), step.query_starts[: sequences + 1], step.sample_rows[:sampled]]


def _send(group: Group, message: Message, numbers: Numbers) -> None:
    first = np.zeros(_FIRST, np.int32)
    first[:_HEADER] = message, len(numbers)
    fitting = _FIRST - _HEADER
    first[_HEADER : _HEADER + len(numbers)] = numbers[:fitting]
    _broadcast(group, first)
    if len(numbers) > fitting:
        _broadcast(group, numbers[fitting:])


def _receive(group: Group) -> tuple[Message, Numbers]:
    first = np.empty(_FIRST, np.int32)
    _broadcast(group, first)
    message, count = first[:_HEADER].tolist()
    numbers = first[_HEADER : _HEADER + count]
    if (missing := count - len(numbers)) > 0:
        rest = np.empty(missing, np.int32)
        _broadcast(group, rest)
        numbers = np.concatenate([numbers, rest])
    return Message(message), numbers


def _broadcast(group: Group, numbers: Numbers) -> None:
    dist.broadcast(torch.from_numpy(numbers), src=0, group=group.control)
