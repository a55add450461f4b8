"""Records the cap; see cpu.h for the slots."""

from __future__ import annotations

from kernels.native.program import Buffer, Kind


def soft_cap(x: Buffer, cap: float) -> Buffer:
    """Works in place: the returned buffer is the one given."""
    x.program.record(Kind.SOFT_CAP, [x], [x.width], (cap,), x.sampled)
    return x
