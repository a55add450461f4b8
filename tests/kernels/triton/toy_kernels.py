"""Small kernels with known properties: what a test of the compiling report compiles."""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.ahead_of_time import Variant


@triton.jit
def product(x_ptr, w_ptr, y_ptr, K, BLOCK: tl.constexpr):
    rows, k = tl.arange(0, BLOCK), tl.arange(0, 64)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, 64):
        x = tl.load(x_ptr + rows[:, None] * K + start + k[None, :])
        w = tl.load(w_ptr + rows[None, :] * K + start + k[:, None])
        acc = tl.dot(x, w, acc)
    tl.store(y_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def copy(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets * stride))


def _product(name: str, block: int, num_warps: int, spills: int = 0) -> Variant:
    signature = {"x_ptr": "*bf16", "w_ptr": "*bf16", "y_ptr": "*fp32", "K": "i32", "BLOCK": "constexpr"}
    return Variant(name, product, signature, {"BLOCK": block}, ("K",), num_warps, num_stages=2, spills=spills)


def variants() -> list[Variant]:
    signature = {"x_ptr": "*bf16", "y_ptr": "*bf16", "stride": "i32", "BLOCK": "constexpr"}
    newest = {"x_ptr": "*bf16", "y_ptr": "*bf16", "no_such_argument": "i32"}
    return [
        _product("good", 64, 4),
        _product("spilling", 128, 1),
        _product("allowed to spill", 128, 1, spills=10_000),
        Variant("narrow", copy, signature, {"BLOCK": 1024}),
        Variant("narrow by nature", copy, signature, {"BLOCK": 1024}, wide=False),
        Variant("not a kernel", copy, newest, {}),
        Variant("for later GPUs", copy, newest, {}, min_capability=90),
    ]
