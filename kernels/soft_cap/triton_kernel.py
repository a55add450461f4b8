"""The soft cap on a GPU: rows * width numbers are read and written, one exponential each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor
from kernels.device_math import tanh

BLOCK = 2048


def soft_cap(x: DeviceTensor, cap: float) -> DeviceTensor:
    """x of any shape; cap > 0."""
    out = torch.empty_like(x.tensor)
    if count := out.numel():
        _soft_cap[(triton.cdiv(count, BLOCK),)](x.tensor, out, count, cap, BLOCK=BLOCK)
    return DeviceTensor(out)


@triton.jit
def _soft_cap(x_ptr, out_ptr, count, cap, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, (cap * tanh(x / cap)).to(out_ptr.dtype.element_ty), mask=mask)


def variants() -> list[Variant]:
    signature = {"x_ptr": "*bf16", "out_ptr": "*bf16", "count": "i32", "cap": "fp32", "BLOCK": "constexpr"}
    return [Variant("bf16", _soft_cap, signature, {"BLOCK": BLOCK}, ("count",))]
