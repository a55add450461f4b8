"""Token embedding and the choice of the rows to sample."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation, Step
from kernels.device import DeviceStep, DeviceTensor
from kernels.embedding import cpu, reference
from kernels.embedding.cpu import RawTable
from kernels.native.program import Buffer, StepArrays

__all__ = ["RawTable", "embedding", "sampled_rows"]


def embedding(table: torch.Tensor | RawTable, step: Step, scale: float = 1.0) -> Activation:
    """The rows [rows, width] of this step's tokens, times `scale`: in the table's type on a GPU, else in float32. A
    `RawTable` records, a tensor is looked up at once."""
    if isinstance(table, RawTable):
        return cpu.embedding(table, scale)
    if isinstance(step, DeviceStep):
        return DeviceTensor(table.index_select(0, step.token_ids[: step.num_rows]) * scale)
    return reference.embedding(table, step, scale)


def sampled_rows(x: Activation, step: Step) -> Activation:
    """The rows of x whose next token is to be sampled."""
    if isinstance(x, Buffer):
        return cpu.sampled_rows(x)
    if isinstance(x, DeviceTensor):
        rows = cast(DeviceStep, step).sample_rows
        return DeviceTensor(x.tensor.index_select(0, rows[: cast(DeviceStep, step).num_sampled]))
    return reference.sampled_rows(x, cast(StepArrays, step))
