"""The most likely token of each row, with a watch for rows that hold NaN."""

from __future__ import annotations

import torch

from kernels.argmax import cpu, reference
from kernels.native.program import Buffer

NOT_FINITE = -1


def argmax(x: torch.Tensor | Buffer) -> torch.Tensor:
    """x [rows, width] to int32 [rows]: the first of the largest values; -1 where a row holds NaN or infinity.
    From a Buffer the tensor returned is a view that each run of the program fills."""
    return cpu.argmax(x) if isinstance(x, Buffer) else reference.argmax(x)
