"""What tests of native ops share: the instruction sets to try, programs, and inputs for them."""

from __future__ import annotations

import numpy as np

from kernels.native.library import available, best_isa
from kernels.native.program import Buffer, Program, StepArrays

ORDER = ["baseline", "avx2", "avx512"]
ISAS = ORDER[: ORDER.index(best_isa()) + 1] if available() else []
MAX_ROWS = 40
FENCE, FENCE_BYTES = 0xA5, 4096


class Fenced(Program):
    """Behind every buffer lies memory that is not the program's."""

    def __init__(self, max_rows: int, isa: str) -> None:
        super().__init__(max_rows, max_rows, num_threads=1, isa=isa)
        self.fences: list[np.ndarray] = []

    def _allocate(self, size: int) -> np.ndarray:
        memory = super()._allocate(size + FENCE_BYTES)
        memory[size:] = FENCE
        self.fences.append(memory[size:])
        return memory[:size]


def described(rows: int) -> StepArrays:
    step = StepArrays(MAX_ROWS, MAX_ROWS, 16)
    step.struct.num_rows = rows
    return step


def filled(program: Program, values: np.ndarray, sampled: bool = False) -> Buffer:
    buffer = program.buffer(values.shape[1], sampled)
    buffer.array[: len(values)] = values
    return buffer


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
