"""The experts of one layer, as every implementation takes them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.gated import GatedActivation
from kernels.linear import DeviceWeight, PackedWeight


@dataclass(frozen=True, slots=True)
class Experts:
    """Gated feed-forwards, one after the other in two matrices, and how many of them a row passes through.

    gate_up [count * 2 * width, hidden], an expert's gate, then its up; down [count * hidden, width]; their biases
    [count * 2 * width] and [count * hidden].
    """

    count: int
    top_k: int
    normalised: bool  # whether the weights of the chosen sum to one
    activation: GatedActivation
    gate_up: torch.Tensor | DeviceWeight | PackedWeight
    down: torch.Tensor | DeviceWeight | PackedWeight
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= self.count:
            raise ValueError(f"of {self.count} experts {self.top_k} cannot be chosen")
