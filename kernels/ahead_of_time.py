"""What it takes to compile a kernel without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Variant:
    """One way in which the engine calls a kernel. Each op's `triton_kernel.variants()` lists its own.

    signature: every argument of the kernel in order, with Triton's name of its type: "*bf16", "i32", "fp32", and
    "constexpr" for those in `constants`. Pointers are taken to be aligned to 16 bytes, and `multiples` names the
    integers that are multiples of 16.
    """

    name: str
    kernel: Any  # a triton.JITFunction
    signature: dict[str, str]
    constants: dict[str, Any]
    multiples: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    min_capability: int = 80
