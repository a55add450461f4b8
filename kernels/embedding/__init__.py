"""Token embedding and the choice of the rows to sample."""

from __future__ import annotations

import torch

from kernels.activation import Activation
from kernels.embedding import cpu, reference
from kernels.embedding.cpu import RawTable
from kernels.native.program import Buffer, StepArrays

__all__ = ["RawTable", "embedding", "sampled_rows"]


def embedding(table: torch.Tensor | RawTable, step: StepArrays, scale: float = 1.0) -> Activation:
    """The float32 rows [rows, width] of this step's tokens, times `scale`. A `RawTable` records, a tensor is looked up
    at once."""
    if isinstance(table, RawTable):
        return cpu.embedding(table, scale)
    return reference.embedding(table, step, scale)


def sampled_rows(x: Activation, step: StepArrays) -> Activation:
    """The rows of x whose next token is to be sampled."""
    return cpu.sampled_rows(x) if isinstance(x, Buffer) else reference.sampled_rows(x, step)
