"""Records the activation; see cpu.h for the slots."""

from __future__ import annotations

from kernels.native.program import Buffer, Kind

NUMBERS = {"silu": 0, "gelu_tanh": 1, "clamped_silu": 2}  # as cpu.h


def gated(x: Buffer, activation: str) -> Buffer:
    y = x.program.buffer(x.width // 2)
    x.program.record(Kind.GATED, [x, None, y], [y.width, NUMBERS[activation]])
    return y
