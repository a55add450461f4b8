"""Causal attention over paged keys and values."""

from __future__ import annotations

from typing import cast

import torch

from kernels.activation import Activation, Step
from kernels.attention import cpu, reference
from kernels.attention.cache import LayerCache
from kernels.device import DeviceOp, DeviceTensor
from kernels.native.program import Buffer, StepArrays

_on_device = DeviceOp[DeviceTensor]("attention", "attention", reference.attention)


def attention(
    qkv: Activation,
    cache: LayerCache,
    step: Step,
    num_heads: int,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> Activation:
    """qkv [rows, (heads + 2 kv_heads) * head_dim] with q rotated, k and v already in the cache; returns
    [rows, heads * head_dim].

    `window`: how many tokens, itself among them, a row sees (None: all before it); blocks wholly before the window of
    a sequence's first row are not read. `soft_cap`: scores become cap * tanh(scores / cap). `sinks` [heads]: a logit
    more for each head, which takes part in the softmax and adds no value (gpt-oss).
    """
    if isinstance(qkv, Buffer):
        return cpu.attention(qkv, cache, num_heads, scale, window, soft_cap, sinks)
    if isinstance(qkv, DeviceTensor):
        return _on_device(qkv, cache, step, num_heads, scale, window, soft_cap, sinks)
    return reference.attention(qkv, cache, cast(StepArrays, step), num_heads, scale, window, soft_cap, sinks)
