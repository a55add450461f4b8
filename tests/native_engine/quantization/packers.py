"""Matrices packed as checkpoints have them, by the formats' published descriptions. Each packer gives the tensors of a
layer and the float32 weight that they stand for."""

from __future__ import annotations

import numpy as np
import torch

Packed = tuple[dict[str, torch.Tensor], torch.Tensor]
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def affine(weight: torch.Tensor, groups: torch.Tensor, bits: int, symmetric: bool) -> tuple[torch.Tensor, ...]:
    """Codes [rows, columns], scales and zeros [rows, groups]; `groups` names the group of each column."""
    top, rows, count = 2**bits - 1, len(weight), int(groups.max()) + 1
    low = torch.stack([weight[:, groups == g].amin(1) for g in range(count)], 1).clamp(max=-1e-3)
    high = torch.stack([weight[:, groups == g].amax(1) for g in range(count)], 1).clamp(min=1e-3)
    if symmetric:
        high = torch.maximum(-low, high)
        low = -high
    scales = ((high - low) / top).half().float()
    zeros = torch.full((rows, count), 2 ** (bits - 1)) if symmetric else (-low / scales).round().int()
    codes = ((weight / scales[:, groups]).round() + zeros[:, groups]).clamp(0, top).int()
    return codes, scales, zeros.int()


def words(fields: torch.Tensor, bits: int) -> torch.Tensor:
    """Fields along the last dimension in int32 words, the first lowest."""
    packed = np.zeros((*fields.shape[:-1], fields.shape[-1] * bits // 32), np.uint32)
    for place in range(32 // bits):
        packed |= fields[..., place :: 32 // bits].numpy().astype(np.uint32) << np.uint32(place * bits)
    return torch.from_numpy(packed.view(np.int32))


def awq(weight: torch.Tensor, group: int = 64) -> Packed:
    groups = torch.arange(weight.shape[1]) // group
    codes, scales, zeros = affine(weight, groups, 4, symmetric=False)

    def packed(fields: torch.Tensor) -> torch.Tensor:
        return words(fields.t().unflatten(1, (-1, 8))[:, :, AWQ_ORDER].flatten(1), 4)

    parts = {"qweight": packed(codes), "qzeros": packed(zeros), "scales": scales.t().half()}
    return parts, scales[:, groups] * (codes - zeros[:, groups])


def gptq(
    weight: torch.Tensor,
    group: int = 32,
    bits: int = 4,
    symmetric: bool = False,
    act_order: int | None = None,
    version: int = 1,
) -> Packed:
    """`act_order`: the seed of a random order; `version` 1 stores zeros less one."""
    columns = weight.shape[1]
    groups = torch.arange(columns) // group
    if act_order is not None:
        groups = groups[torch.from_numpy(np.random.default_rng(act_order).permutation(columns))]
    codes, scales, zeros = affine(weight, groups, bits, symmetric)
    stored = zeros - 1 & 2**bits - 1 if version == 1 else zeros
    parts = {
        "qweight": words(codes, bits).t(),
        "qzeros": words(stored.t(), bits),
        "scales": scales.t().half(),
        "g_idx": groups.int(),
    }
    return parts, scales[:, groups] * (codes - zeros[:, groups])


def packed_int(weight: torch.Tensor, group: int = 32, bits: int = 4, symmetric: bool = True) -> Packed:
    """compressed-tensors' pack-quantized: zero points packed down the rows."""
    groups = torch.arange(weight.shape[1]) // group
    codes, scales, zeros = affine(weight, groups, bits, symmetric)
    parts = {
        "weight_packed": words(codes, bits),
        "weight_scale": scales.half(),
        "weight_shape": torch.tensor(weight.shape),
    }
    if not symmetric:
        parts["weight_zero_point"] = words(zeros.t(), bits).t()
    return parts, scales[:, groups] * (codes - zeros[:, groups])


def int8(weight: torch.Tensor) -> Packed:
    """compressed-tensors' int-quantized, a scale a row."""
    scales = weight.abs().amax(1, keepdim=True) / 127
    codes = (weight / scales).round().char()
    return {"weight": codes, "weight_scale": scales}, codes * scales


def fp8(weight: torch.Tensor, block: tuple[int, int] | None = (128, 128), name: str = "weight_scale_inv") -> Packed:
    """Scales for blocks, of which the last may be cut; `block` None: one for all."""
    rows, columns = weight.shape
    height, width = block or (rows, columns)
    padded = torch.nn.functional.pad(weight, (0, -columns % width, 0, -rows % height))
    largest = padded.unflatten(1, (-1, width)).unflatten(0, (-1, height)).abs().amax((1, 3))
    scales = largest / 448
    spread = scales.repeat_interleave(height, 0)[:rows].repeat_interleave(width, 1)[:, :columns]
    codes = (weight / spread).to(torch.float8_e4m3fn)
    stored = scales if block else scales.squeeze()
    return {"weight": codes, name: stored, "input_scale": torch.tensor(0.5)}, codes.float() * spread
