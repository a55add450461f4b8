"""Logits kept within bounds smoothly, as Gemma 2 does it."""

from __future__ import annotations

from kernels.activation import Activation
from kernels.native.program import Buffer
from kernels.soft_cap import cpu, reference


def soft_cap(x: Activation, cap: float) -> Activation:
    """x [rows, width] to cap * tanh(x / cap), which lies between -cap and cap."""
    return cpu.soft_cap(x, cap) if isinstance(x, Buffer) else reference.soft_cap(x, cap)
