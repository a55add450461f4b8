"""A quantised weight as the GPU's kernels hold it: codes, and a scale for each group of a row's columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DeviceWeight:
    """w[n, k] = scales[n, k // group] * codes[n, k] + offsets[n, k // group], columns in the model's order.

    codes: int8 [n, k]; or float8_e4m3fn [n, k]; or uint8 [n, k / 2], two codes of four bits a byte, as
    `kernels.linear.device_weight.pack` lays them. scales, and offsets where there are any: float32 [n, k / group].
    """

    n: int
    k: int
    group: int
    codes: torch.Tensor
    scales: torch.Tensor
    offsets: torch.Tensor | None = None

    @property
    def bits(self) -> int:
        return 4 if self.codes.dtype == torch.uint8 else 8

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (self.codes, self.scales, self.offsets) if each is not None)

    def dequantised(self) -> torch.Tensor:
        """Float32 [n, k]."""
        codes = unpack(self.codes) if self.bits == 4 else self.codes
        grouped = codes.float().view(self.n, -1, self.group) * self.scales[..., None]
        return (grouped if self.offsets is None else grouped + self.offsets[..., None]).view(self.n, self.k)


@dataclass(frozen=True, slots=True)
class JoinedDeviceWeight:
    """Weights of the same input whose outputs lie side by side, each of its own kind."""

    parts: tuple[torch.Tensor | DeviceWeight, ...]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.parts)

    def dequantised(self) -> torch.Tensor:
        return torch.cat([dequantised(each).float() for each in self.parts])


def dequantised(weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight) -> torch.Tensor:
    return weight if isinstance(weight, torch.Tensor) else weight.dequantised()


def pack(codes: torch.Tensor) -> torch.Tensor:
    """uint8 codes [n, k] below 16 to [n, k / 2]: column 2 i in the low half of byte i."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """uint8 [n, k / 2] to codes [n, k]."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)
