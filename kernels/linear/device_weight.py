"""A quantised weight as the GPU's kernels hold it: codes, and a scale for each group of a row's columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch

SPAN = 128  # columns whose codes of four bits lie in 16 words


@dataclass(frozen=True, slots=True)
class DeviceWeight:
    """w[n, k] = scales[k // group, n] * codes[n, k] + offsets[k // group, n], columns in the model's order.

    codes: int8 [n, k]; or float8_e4m3fn [n, k]; or, for codes of -8 to 7, int32 [k / 128 rounded up, n, 16] as `pack`
    lays them. scales, and offsets where there are any: [k / group, n], so that those of neighbouring rows are read
    together, in the narrowest type that holds them exactly (see `narrowed`).
    """

    n: int
    k: int
    group: int
    codes: torch.Tensor
    scales: torch.Tensor
    offsets: torch.Tensor | None = None

    @property
    def bits(self) -> int:
        return 4 if self.codes.dtype == torch.int32 else 8

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (self.codes, self.scales, self.offsets) if each is not None)

    def dequantised(self) -> torch.Tensor:
        """Float32 [n, k]."""
        codes = unpack(self.codes, self.k) if self.bits == 4 else self.codes
        grouped = codes.float().view(self.n, -1, self.group) * self.scales.float().T[..., None]
        if self.offsets is not None:
            grouped += self.offsets.float().T[..., None]
        return grouped.view(self.n, self.k)


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
    """int8 codes [n, k] of -8 to 7 to int32 [k / 128 rounded up, n, 16].

    Word j of a span of 128 columns holds, plus 8, the codes of columns j, 32 + j, 64 + j, 96 + j in its low half, and
    those of the columns 16 further in its high half, the first in the lowest bits. One load gives a matrix product its
    factors for eight times 16 columns, a shift and a mask those of two of them at once, and neighbouring rows lie side
    by side in memory. Columns past k are zeros.
    """
    n, k = codes.shape
    spans = -(-k // SPAN)
    padded = torch.nn.functional.pad(codes, (0, spans * SPAN - k)) + 8
    lanes = padded.view(n, spans, 8, 16).transpose(0, 1)
    words = torch.zeros(spans, n, 16, dtype=torch.int32, device=codes.device)
    for lane in range(8):
        words |= lanes[:, :, lane].int() << _shift(lane)
    return words


def unpack(packed: torch.Tensor, k: int) -> torch.Tensor:
    """What `pack` made, to int8 codes [n, k]."""
    lanes = [(packed >> _shift(lane) & 15).to(torch.int8) - 8 for lane in range(8)]
    return torch.stack(lanes, dim=2).transpose(0, 1).flatten(1)[:, :k]


def _shift(lane: int) -> int:
    """Where the codes of the 16 columns from 16 * lane on stand in their words."""
    return 4 * (lane // 2) + 16 * (lane % 2)


def narrowed(values: torch.Tensor) -> torch.Tensor:
    """The same numbers in float16 or bfloat16 where one of them holds each exactly: half the bytes to read."""
    for dtype in (torch.float16, torch.bfloat16):
        half = values.to(dtype)
        if torch.equal(half.float(), values):
            return half
    return values
