"""Gated activations on a GPU.

Moves rows * width * 3 numbers, two read and one written, and computes one exponential for each that is written.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor
from kernels.gated.reference import LIMIT, SLOPE

BLOCK = 2048  # 16 numbers, two loads of bfloat16, for each of 128 threads

_LIMIT, _SLOPE = tl.constexpr(LIMIT), tl.constexpr(SLOPE)


def gated(x: DeviceTensor, activation: str) -> DeviceTensor:
    """x [rows, 2 * width] to [rows, width]; a NaN stays within its row."""
    rows, both = x.tensor.shape
    width = both // 2
    out = x.tensor.new_empty(rows, width)
    if rows:
        _gated[(rows, triton.cdiv(width, BLOCK))](x.tensor, out, width, ACTIVATION=activation, BLOCK=BLOCK)
    return DeviceTensor(out)


@triton.jit
def _sigmoid(x):
    t = tl.exp(-tl.abs(x))  # of what cannot overflow
    return tl.where(x < 0, t, 1.0) / (1 + t)


@triton.jit
def activated(gate, up, ACTIVATION: tl.constexpr):
    """activation(gate) * up, in float32."""
    if ACTIVATION == "silu":
        return gate * _sigmoid(gate) * up
    if ACTIVATION == "clamped_silu":  # by comparison: minimum and maximum would hide a NaN
        gate = tl.where(gate > _LIMIT, _LIMIT, gate)
        up = tl.where(up > _LIMIT, _LIMIT, tl.where(up < -_LIMIT, -_LIMIT, up))
        return gate * _sigmoid(gate * _SLOPE) * (up + 1)
    # gelu_tanh: (1 + tanh(u)) / 2 = sigmoid(2 u), and 2 sqrt(2 / pi) = 1.5957691216
    return gate * _sigmoid(1.5957691216 * (gate + 0.044715 * gate * gate * gate)) * up


@triton.jit
def _gated(x_ptr, out_ptr, width, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < width
    gate = tl.load(x_ptr + row * 2 * width + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * width + width + offsets, mask=mask, other=0.0).to(tl.float32)
    y = activated(gate, up, ACTIVATION)
    tl.store(out_ptr + row * width + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


def variants() -> list[Variant]:
    signature = {"x_ptr": "*bf16", "out_ptr": "*bf16", "width": "i32", "ACTIVATION": "constexpr", "BLOCK": "constexpr"}
    return [
        Variant(activation, _gated, signature, {"ACTIVATION": activation, "BLOCK": BLOCK}, ("width",))
        for activation in ("silu", "gelu_tanh", "clamped_silu")
    ]
