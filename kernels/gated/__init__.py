"""The gated activations of feed-forward layers: SwiGLU of the Llama family, GEGLU of Gemma, and gpt-oss's own."""

from __future__ import annotations

from typing import Literal

from kernels.activation import Activation
from kernels.gated import cpu, reference
from kernels.native.program import Buffer

GatedActivation = Literal["silu", "gelu_tanh", "clamped_silu"]


def gated(x: Activation, activation: GatedActivation) -> Activation:
    """x [rows, 2 * width], gate and up side by side, to activation(gate) * up [rows, width].

    "clamped_silu" is gpt-oss's: gate at most 7 and up within 7 either way, then gate * sigmoid(1.702 gate) * (up + 1).
    """
    return cpu.gated(x, activation) if isinstance(x, Buffer) else reference.gated(x, activation)
