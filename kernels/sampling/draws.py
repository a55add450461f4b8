"""What each row is drawn with on a device. Knows no request."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DeviceDraws:
    """Tensors [rows] on the device, float32, and `top_k` int32.

    temperature: 0 takes the first of the largest; top_k: 0 for all; top_p: above 0, 1 for all; min_p: 0 for all;
    uniform: from [0, 1); what float32 has rounded to 1 counts as the last number below it.
    """

    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    uniform: torch.Tensor
