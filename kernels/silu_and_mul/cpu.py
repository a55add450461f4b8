"""Records the activation; see cpu.h for the slots."""

from __future__ import annotations

from kernels.native.program import Buffer, Kind


def silu_and_mul(x: Buffer) -> Buffer:
    y = x.program.buffer(x.width // 2)
    x.program.record(Kind.SILU_AND_MUL, [x, None, y], [y.width])
    return y
