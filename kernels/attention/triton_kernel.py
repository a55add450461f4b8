"""Causal attention over paged keys and values on a GPU: one kernel for the decodes of a step, one for its prefills.

The host never asks the device how long a sequence is.
"""

from __future__ import annotations

import torch

from kernels.attention.cache import LayerCache
from kernels.attention.triton_call import Call
from kernels.attention.triton_decode import decode
from kernels.attention.triton_prefill import prefill
from kernels.device import DeviceStep, DeviceTensor


def attention(
    qkv: DeviceTensor,
    cache: LayerCache,
    step: DeviceStep,
    num_heads: int,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> DeviceTensor:
    """See kernels.attention.attention. Decodes that only fill up a batch get zeros."""
    if cache.keys.stride(2) != 1:
        raise ValueError("on a GPU the dimensions of a key must lie side by side: make the cache with allocate_on")
    q = qkv.tensor
    out = torch.empty(len(q), num_heads * cache.head_dim, dtype=q.dtype, device=q.device)
    call = Call(q, cache, step, num_heads, scale, window, soft_cap, sinks, out)
    if step.num_decodes:
        decode(call)
    if step.num_sequences > step.num_decodes:
        prefill(call)
    return DeviceTensor(out)
