"""RMS normalisation on a GPU: a program a row, which stays in registers between the sum of squares and the product.

It must move rows * width * (2 + 1 with a residual) numbers, and the weight; against that it computes next to nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor

MAX_WIDTH = 16384  # 32 numbers a thread of the largest program


def rms_norm(x: DeviceTensor, weight: torch.Tensor, eps: float, residual: DeviceTensor | None = None) -> DeviceTensor:
    """x [..., width], weight [width] in float32, residual as x. Raises ValueError past MAX_WIDTH."""
    width = x.tensor.shape[-1]
    if width > MAX_WIDTH:
        raise ValueError(f"rms_norm of {width} numbers a row: the kernel holds at most {MAX_WIDTH} in registers")
    out = torch.empty_like(x.tensor)
    rows = out.numel() // width
    if rows:
        added = None if residual is None else residual.tensor
        block = triton.next_power_of_2(width)
        _rms_norm[(rows,)](x.tensor, weight, added, out, width, eps, BLOCK=block, num_warps=_num_warps(block))
    return DeviceTensor(out)


def _num_warps(block: int) -> int:
    """Eight numbers a thread, 16 bytes of bfloat16, as far as a program can grow."""
    return min(max(block // 256, 1), 16)


@triton.jit
def _rms_norm(x_ptr, weight_ptr, residual_ptr, out_ptr, width, eps, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < width
    start = tl.program_id(0).to(tl.int64) * width
    x = tl.load(x_ptr + start + offsets, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + offsets, mask=mask, other=0.0)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / width + eps) * weight
    if residual_ptr is not None:
        y += tl.load(residual_ptr + start + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + start + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


def variants() -> list[Variant]:
    return [
        _variant("128 wide", 128, False),
        _variant("4096 wide", 4096, False),
        _variant("5120 wide, with a residual", 5120, True),
        _variant(f"{MAX_WIDTH} wide, with a residual", MAX_WIDTH, True),
    ]


def _variant(name: str, width: int, residual: bool) -> Variant:
    block = triton.next_power_of_2(width)
    signature = {
        "x_ptr": "*bf16",
        "weight_ptr": "*fp32",
        "residual_ptr": "*bf16" if residual else "constexpr",
        "out_ptr": "*bf16",
        "width": "i32",
        "eps": "fp32",
        "BLOCK": "constexpr",
    }
    constants = {"BLOCK": block} | ({} if residual else {"residual_ptr": None})
    return Variant(name, _rms_norm, signature, constants, ("width",), _num_warps(block), wide=width > 128)
