"""The processes that compute one model together, and what they say to each other inside a layer. Knows no model.

Shoeybi et al., Megatron-LM (2019), section 3: a matrix that widens is split by its outputs, the one that follows it by
its inputs, so that a layer needs two sums over the ranks and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from kernels.activation import Activation
from kernels.device import DeviceTensor
from kernels.native.program import Buffer, StepArrays

# Who waits longer for a sum waits for a rank that is stuck: the death of one is seen at once. The first steps on a GPU
# compile kernels, and no two ranks are equally quick at that.
_STUCK_AFTER = timedelta(minutes=10)
_FOR_EVER = timedelta(days=3650)

Kind = TypeVar("Kind", bound=Activation)


@dataclass(frozen=True, slots=True)
class Group:
    """This process is `rank` of `size`. A group of one does nothing and costs nothing.

    `tensors`: the process group that activations pass through; `control`: one on the CPU, in which a rank may wait as
    long as it likes.
    """

    rank: int = 0
    size: int = 1
    tensors: dist.ProcessGroup | None = None
    control: dist.ProcessGroup | None = None

    def sum(self, x: Activation) -> Activation:
        """x of all ranks, added up. Works in place, and on a Buffer records."""
        if self.size == 1:
            return x
        if isinstance(x, Buffer):
            array, sampled = x.array, x.sampled
            x.program.call(lambda step: self._add_up(_rows(array, sampled, step)))
        else:
            self._add_up(_tensor(x))
        return x

    def join(self, x: Activation, width: int) -> Activation:
        """The columns of all ranks side by side, as many each: the first `width` of them [rows, width]."""
        if self.size == 1:
            return x
        if isinstance(x, Buffer):
            return self._record_join(x, width)
        joined = self._side_by_side(_tensor(x))[:, :width].contiguous()
        return DeviceTensor(joined) if isinstance(x, DeviceTensor) else joined

    def once(self, x: Kind) -> Kind | None:
        """x at one rank, None at the others: what a sum over the ranks must hold only once."""
        return x if self.rank == 0 else None

    def smallest(self, number: int) -> int:
        """Of the numbers that the ranks bring."""
        if self.size == 1:
            return number
        each = torch.tensor([number])
        dist.all_reduce(each, dist.ReduceOp.MIN, group=self.control)
        return int(each)

    def _add_up(self, x: torch.Tensor) -> None:
        dist.all_reduce(x, group=self.tensors)

    def _side_by_side(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, width] of each rank to [rows, size * width]."""
        parts = x.new_empty(self.size, *x.shape)
        dist.all_gather(list(parts), x, group=self.tensors)
        return parts.transpose(0, 1).flatten(1)

    def _record_join(self, x: Buffer, width: int) -> Buffer:
        y = x.program.buffer(width, x.sampled)
        # The arrays alone: a buffer that is kept would not give its memory back to the program.
        source, target, sampled = x.array, y.array, x.sampled

        def run(step: StepArrays) -> None:
            _rows(target, sampled, step).copy_(self._side_by_side(_rows(source, sampled, step))[:, :width])

        x.program.call(run)
        return y


ALONE = Group()


def connect(meeting_point: Path, rank: int, size: int, device: torch.device) -> Group:
    """The group of `size` processes that name the same file, which is not there before; once in a process.

    Between the ranks numbers pass by NCCL on GPUs, by gloo on CPUs.
    """
    store = dist.FileStore(str(meeting_point), size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_FOR_EVER)
    backend = "nccl" if device.type == "cuda" else "gloo"
    tensors = dist.new_group(backend=backend, timeout=_STUCK_AFTER)
    return Group(rank, size, tensors, dist.group.WORLD)


def _tensor(x: Activation) -> torch.Tensor:
    return x.tensor if isinstance(x, DeviceTensor) else cast(torch.Tensor, x)


def _rows(array: npt.NDArray[np.float32], sampled: bool, step: StepArrays) -> torch.Tensor:
    """What this step has of a buffer, in its own memory."""
    return torch.from_numpy(array[: step.struct.num_sampled if sampled else step.struct.num_rows])
