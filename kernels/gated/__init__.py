"""The gated activations of feed-forward layers: SwiGLU of the Llama family, GEGLU of Gemma, and gpt-oss's own."""

from __future__ import annotations

from typing import Literal

from kernels.activation import Activation
from kernels.device import DeviceOp, DeviceTensor
from kernels.gated import cpu, reference
from kernels.native.program import Buffer

GatedActivation = Literal["silu", "gelu_tanh", "clamped_silu"]

_on_device = DeviceOp[DeviceTensor]("gated", "gated", reference.gated)


def gated(x: Activation, activation: GatedActivation) -> Activation:
    """x [rows, 2 * width], gate and up side by side, to activation(gate) * up [rows, width].

    "clamped_silu" is gpt-oss's: gate at most 7 and up within 7 either way, then gate * sigmoid(1.702 gate) * (up + 1).
    """
    if isinstance(x, Buffer):
        return cpu.gated(x, activation)
    return _on_device(x, activation) if isinstance(x, DeviceTensor) else reference.gated(x, activation)
