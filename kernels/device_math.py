"""Arithmetic that several Triton kernels share, written so that Triton's interpreter and every GPU agree on it."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.device import interpreting

INTERPRETING = tl.constexpr(interpreting())


@triton.jit
def dot(a, b, acc):
    """acc + a @ b, summed in acc's type: float32, or int32 for int8. float32 factors keep all their bits.

    The interpreter would multiply the bits of bfloat16 and FP8 as integers, so it gets them in float32.
    """
    if acc.dtype == tl.int32:
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    elif INTERPRETING:
        acc = tl.dot(a.to(tl.float32), b.to(tl.float32), acc, input_precision="ieee")
    else:
        acc = tl.dot(a, b, acc, input_precision="ieee")
    return acc


@triton.jit
def tanh(x):
    """tanh of float32, to about 1e-7 of 1: the device libraries that have a better one are different on each GPU."""
    t = tl.exp(-2 * tl.abs(x))  # of what cannot overflow
    return tl.where(x < 0, t - 1, 1 - t) / (1 + t)


@triton.jit
def from_e4m3(codes):
    """FP8 E4M3 numbers in float16, which holds each of them exactly.

    GPUs that cannot convert FP8 themselves (before sm_89) are given bytes, uint8: moved to where float16 has its
    exponent and mantissa, a code is 2^8 times too small, the subnormal ones too; NaN is read as 480.
    """
    if codes.dtype == tl.uint8:
        shifted = (codes.to(tl.uint16) << 8).to(tl.int16, bitcast=True) >> 1
        return (shifted & -0x4001).to(tl.float16, bitcast=True) * 256.0
    return codes.to(tl.float16)
