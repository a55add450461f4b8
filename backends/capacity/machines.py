"""Machines to plan for, by what their makers say of them. Knows no model."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """One GPU, or one machine whose processors share their memory.

    memory_gib; bandwidth: bytes/s of that memory; operations: FLOP/s of dense bfloat16 products, None where the maker
    gives no such figure; link: bytes/s to each other GPU of the same machine, one way; source: whose figures these are.
    """

    memory_gib: float
    bandwidth: float
    operations: float | None
    link: float
    source: str


_PCIE4, _PCIE5 = 32e9, 64e9  # 16 lanes, one way

MACHINES = {
    "l4": Machine(24, 300e9, 121e12, _PCIE4, "NVIDIA L4 data sheet"),
    "a10": Machine(24, 600e9, 125e12, _PCIE4, "NVIDIA A10 data sheet"),
    "l40s": Machine(48, 864e9, 362e12, _PCIE4, "NVIDIA L40S data sheet"),
    "rtx-4090": Machine(24, 1008e9, 165e12, _PCIE4, "NVIDIA Ada architecture paper"),
    "rtx-5090": Machine(32, 1792e9, 209e12, _PCIE5, "NVIDIA RTX Blackwell architecture paper"),
    "a100-40gb": Machine(40, 1555e9, 312e12, 300e9, "NVIDIA A100 data sheet, SXM"),
    "a100-80gb": Machine(80, 2039e9, 312e12, 300e9, "NVIDIA A100 data sheet, SXM"),
    "h100": Machine(80, 3350e9, 989e12, 450e9, "NVIDIA H100 data sheet, SXM"),
    "h200": Machine(141, 4800e9, 989e12, 450e9, "NVIDIA H200 data sheet, SXM"),
    "b200": Machine(180, 8000e9, 2250e12, 900e9, "NVIDIA DGX B200 data sheet, one of eight"),
    "mi300x": Machine(192, 5300e9, 1307e12, 64e9, "AMD Instinct MI300X data sheet"),
    "dgx-spark": Machine(128, 273e9, None, 0, "NVIDIA DGX Spark data sheet; unified memory"),
    "mac-m4-max": Machine(128, 546e9, None, 0, "Apple MacBook Pro specifications; unified memory"),
    "mac-m3-ultra": Machine(512, 819e9, None, 0, "Apple Mac Studio specifications; unified memory"),
    "ryzen-ai-max-395": Machine(128, 256e9, None, 0, "AMD Ryzen AI Max+ 395 specifications; unified memory"),
}
