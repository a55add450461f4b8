"""Records the look-ups; see cpu.h for the slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.linear.formats import FORMATS
from kernels.native.program import Buffer, Kind, Program


@dataclass(frozen=True, slots=True)
class RawTable:
    """An embedding table [vocabulary, width] as the file has it (memory-mapped), bound to the program that reads it."""

    program: Program
    raw: npt.NDArray[np.uint8]
    type_name: str
    width: int


def embedding(table: RawTable, scale: float = 1.0) -> Buffer:
    """Raises ValueError for a type that has no native kernel."""
    if table.type_name not in FORMATS:
        raise ValueError(f"embeddings of type {table.type_name} have no native kernel; known: {', '.join(FORMATS)}")
    chosen = FORMATS[table.type_name]
    y = table.program.buffer(table.width)
    integers = [table.width, chosen.number, chosen.bytes_per_row(table.width)]
    table.program.record(Kind.EMBEDDING, [table.raw, None, y], integers, (scale,))
    return y


def sampled_rows(x: Buffer) -> Buffer:
    """The rows to sample, gathered: from here on the program works on those only."""
    y = x.program.buffer(x.width, sampled=True)
    x.program.record(Kind.GATHER, [x, None, y], [x.width])
    return y
