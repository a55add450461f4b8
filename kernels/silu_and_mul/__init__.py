"""The gated activation of the Llama family's feed-forward layer."""

from __future__ import annotations

from kernels.activation import Activation
from kernels.native.program import Buffer
from kernels.silu_and_mul import cpu, reference


def silu_and_mul(x: Activation) -> Activation:
    """x [rows, 2 * width], gate and up side by side, to silu(gate) * up [rows, width]."""
    return cpu.silu_and_mul(x) if isinstance(x, Buffer) else reference.silu_and_mul(x)
