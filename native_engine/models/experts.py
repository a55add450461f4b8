"""The feed-forward of a mixture of experts: Qwen3-MoE, Mixtral, gpt-oss."""

from __future__ import annotations

import torch

from kernels.activation import Activation
from kernels.gated import GatedActivation
from kernels.linear import linear
from kernels.moe import Experts, moe
from native_engine.loading.expert_config import ExpertConfig
from native_engine.quantization.weights import WeightLoader


class ExpertFeedForward:
    """A router, and the experts it chooses from."""

    def __init__(self, config: ExpertConfig, activation: GatedActivation, loader: WeightLoader, prefix: str) -> None:
        names = [f"{prefix}mlp.experts.{expert}." for expert in range(config.count)]
        gate_up = [f"{name}{part}_proj" for name in names for part in ("gate", "up")]
        down = [f"{name}down_proj" for name in names]
        self.router = loader.linear(f"{prefix}mlp.gate.weight")
        self.router_bias = _bias(loader, [f"{prefix}mlp.gate"])
        self.experts = Experts(
            count=config.count,
            top_k=config.per_token,
            normalised=config.normalised,
            activation=activation,
            gate_up=loader.experts(*(f"{name}.weight" for name in gate_up)),
            down=loader.experts(*(f"{name}.weight" for name in down)),
            gate_up_bias=_bias(loader, gate_up),
            down_bias=_bias(loader, down),
        )

    def forward(self, x: Activation, residual: Activation | None) -> Activation:
        """x [rows, hidden] to [rows, hidden], residual added."""
        return moe(x, linear(x, self.router, self.router_bias), self.experts, residual)


def _bias(loader: WeightLoader, names: list[str]) -> torch.Tensor | None:
    return loader.vector(*(f"{name}.bias" for name in names)) if loader.has(f"{names[0]}.bias") else None
