"""The truth: the experts one after the other in float32, each on the rows that chose it."""

from __future__ import annotations

from typing import cast

import torch

from kernels.gated import reference as activations
from kernels.linear.device_weight import DeviceWeight, dequantised
from kernels.moe.experts import Experts


def route(logits: torch.Tensor, top_k: int, normalised: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """logits [rows, experts] to the chosen experts' numbers, best first, and weights, both [rows, top_k]."""
    ordered, numbers = logits.sort(dim=-1, descending=True, stable=True)
    chosen = ordered[:, :top_k]
    weights = chosen.softmax(-1) if normalised else (chosen - logits.logsumexp(-1, keepdim=True)).exp()
    return numbers[:, :top_k], weights


def moe(x: torch.Tensor, logits: torch.Tensor, experts: Experts, residual: torch.Tensor | None = None) -> torch.Tensor:
    """As kernels.moe.moe; an expert that no row chose is not read."""
    numbers, weights = route(logits, experts.top_k, experts.normalised)
    gate_up, down = (_by_expert(each, experts.count) for each in (experts.gate_up, experts.down))
    gate_up_bias, down_bias = (
        None if each is None else each.view(experts.count, -1) for each in (experts.gate_up_bias, experts.down_bias)
    )
    y = torch.zeros_like(x) if residual is None else residual.clone()
    for expert in sorted(set(numbers.flatten().tolist())):
        rows, places = (numbers == expert).nonzero(as_tuple=True)
        h = torch.nn.functional.linear(x[rows], gate_up[expert], None if gate_up_bias is None else gate_up_bias[expert])
        h = activations.gated(h, experts.activation)
        h = torch.nn.functional.linear(h, down[expert], None if down_bias is None else down_bias[expert])
        y.index_add_(0, rows, h * weights[rows, places, None])
    return y


def _by_expert(weight: object, count: int) -> torch.Tensor:
    weight = dequantised(cast(torch.Tensor | DeviceWeight, weight)).float()
    return weight.view(count, -1, weight.shape[-1])
