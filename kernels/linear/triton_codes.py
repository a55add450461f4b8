"""Codes of a DeviceWeight as factors of a matrix product, by their bits: converting integers to floats is four to
sixteen times slower than an addition on a GPU, and there is a code for each weight. Knows no scales."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.device_math import INTERPRETING


@triton.jit
def int4_pair(words, pair: tl.constexpr, dtype: tl.constexpr):
    """Of words as kernels.linear.device_weight.pack lays them, the codes of columns 32 * pair to 32 * pair + 15, and of
    the next 16, in `dtype`.

    A code in the lowest bits of the mantissa of 128 (bfloat16) or 1024 (float16) is that much more than the code. Both
    halves of a word get it at once.
    """
    both = (words >> (4 * pair)) & 0x000F000F
    if dtype == tl.bfloat16:
        both |= 0x43004300
    elif dtype == tl.float16:
        both |= 0x64006400
    return _int4(both.to(tl.uint16), dtype), _int4((both >> 16).to(tl.uint16), dtype)


@triton.jit
def _int4(bits, dtype: tl.constexpr):
    if INTERPRETING or dtype == tl.float32:  # the interpreter cannot subtract bfloat16
        codes = (bits & 15).to(tl.float32) - 8
    elif dtype == tl.bfloat16:
        codes = bits.to(tl.bfloat16, bitcast=True) - 136.0
    else:
        codes = bits.to(tl.float16, bitcast=True) - 1032.0
    return codes.to(dtype)


@triton.jit
def factors(codes, dtype: tl.constexpr):
    """int8, or FP8 E4M3 given as uint8, or what is `dtype` already, in `dtype`, exactly.

    The bits of float32 2^23 + 128 with a code's in the lowest place are that much more than the code; those of FP8,
    moved to where float32 has its exponent and mantissa, are 2^120 times too small, the subnormal ones too.
    """
    if codes.dtype == tl.int8:
        codes = (codes.to(tl.uint8, bitcast=True).to(tl.int32) ^ 0x4B000080).to(tl.float32, bitcast=True) - 8388736.0
    elif codes.dtype == tl.uint8:
        codes = ((codes.to(tl.int32) << 24 >> 4) & -0x78100000).to(tl.float32, bitcast=True) * 1.329227995784916e36
    return codes.to(dtype)
