"""Mixture of experts: each row passes through the few feed-forwards that its router logits choose."""

from __future__ import annotations

from typing import cast

from kernels.activation import Activation
from kernels.device import DeviceOp, DeviceTensor
from kernels.moe import cpu, reference
from kernels.moe.experts import Experts
from kernels.native.program import Buffer

__all__ = ["Experts", "moe"]

_on_device = DeviceOp[DeviceTensor]("moe", "moe", reference.moe)


def moe(x: Activation, logits: Activation, experts: Experts, residual: Activation | None = None) -> Activation:
    """x [rows, hidden], logits [rows, number of experts] to [rows, hidden]: the weighted sum of what each row's
    `experts.top_k` best experts give, plus residual.

    The weights are softmax probabilities (Shazeer et al. 2017): over all experts, or over the chosen ones where
    `experts.normalised` (which is the same as dividing the former by their sum). Among equal logits the lower number
    is chosen; what is not a number is chosen first, so that it comes through.
    """
    if isinstance(x, Buffer):
        return cpu.moe(x, cast(Buffer, logits), experts, cast(Buffer | None, residual))
    if isinstance(x, DeviceTensor):
        return _on_device(x, logits, experts, residual)
    return reference.moe(x, logits, experts, residual)  # type: ignore[arg-type]
