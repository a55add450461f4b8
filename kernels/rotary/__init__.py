"""Rotary position embedding, and the way of keys and values into their cache."""

from __future__ import annotations

from typing import cast

from kernels.activation import Activation, Step
from kernels.attention.cache import LayerCache
from kernels.device import DeviceOp, DeviceTensor
from kernels.native.program import Buffer, StepArrays
from kernels.rotary import cpu, reference
from kernels.rotary.tables import HeadNorms, RotaryTables

__all__ = ["HeadNorms", "RotaryTables", "rotary"]

_on_device = DeviceOp[DeviceTensor]("rotary", "rotary", reference.rotary)


def rotary(
    qkv: Activation, tables: RotaryTables, cache: LayerCache, step: Step, num_heads: int, norms: HeadNorms | None
) -> Activation:
    """Rotates q and k of qkv [rows, (heads + 2 kv_heads) * head_dim] by position (of each head the first dimensions,
    twice as many as the tables are wide), after normalising each head where `norms` says so, and writes k and v to
    their slots; returns qkv with q rotated."""
    if isinstance(qkv, Buffer):
        return cpu.rotary(qkv, tables, cache, num_heads, norms)
    if isinstance(qkv, DeviceTensor):
        return _on_device(qkv, tables, cache, step, num_heads, norms)
    return reference.rotary(qkv, tables, cache, cast(StepArrays, step), num_heads, norms)
