"""From the raw rows of formats.py, or GGUF's, to what the GPU's kernels hold: codes of a sign, scales and offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from kernels.linear.device_weight import DeviceWeight, narrowed, pack
from kernels.linear.formats import FORMATS, OWN_GROUPS, ZERO_BITS

# Of blocks [n, blocks, bytes]: codes [n, k], scales and offsets [n, groups]. Four bits where every code is -8 to 7.
Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]

_MXFP4_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def device_weight(
    type_name: str,
    raw: npt.NDArray[np.uint8],
    k: int,
    device: torch.device,
    order: npt.NDArray[np.int32] | None = None,
) -> DeviceWeight:
    """Raw rows [n, bytes] of a weight [n, k] as a DeviceWeight on `device`, equal to it but for float32's rounding.

    With `order` [k], column j of the rows is the model's column order[j] (an act-order checkpoint); they are put back.
    Raises ValueError for a type without such a form, a width that is not whole groups, and an order in which a group
    does not stay one: such a weight is to be dequantised.
    """
    if type_name not in _PARTS:
        raise ValueError(f"weights of type {type_name} have no form for a GPU's kernels; known: {', '.join(_PARTS)}")
    block = OWN_GROUPS.get(type_name, FORMATS[type_name].block) or k
    if k % block:
        raise ValueError(f"{type_name} weights come in groups of {block}, but the row has {k} values")
    rows = torch.from_numpy(np.ascontiguousarray(raw)).to(device)
    codes, scales, offsets = _PARTS[type_name](rows.view(len(rows), k // block, -1))
    group = k // scales.shape[1]
    if order is not None:
        columns, groups = _put_back(order, group)
        codes, scales = codes[:, columns.to(device)], scales[:, groups.to(device)]
        offsets = None if offsets is None else offsets[:, groups.to(device)]
    return DeviceWeight(
        *(len(rows), k, group),
        pack(codes) if type_name.startswith(_FOUR_BITS) else codes.contiguous(),
        narrowed(scales.T.contiguous()),
        None if offsets is None else narrowed(offsets.T.contiguous()),
    )


def _put_back(order: npt.NDArray[np.int32], group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of the model's columns, and each of its groups, where the rows have it."""
    columns = torch.from_numpy(np.argsort(order))
    groups = columns.view(-1, group) // group
    if not (groups == groups[:, :1]).all():
        raise ValueError("columns of one group are not neighbours in the model's order: dequantise this weight")
    return columns, groups[:, 0]


def _int4(blocks: torch.Tensor) -> Parts:
    words = _as(blocks[..., :4], torch.int32)
    scales, zeros = (words & ~ZERO_BITS).view(torch.float32), words & ZERO_BITS
    codes = _nibbles(_in(blocks[..., 4:], -1, 16)) - 8
    return codes.flatten(1), scales, None if (zeros == 8).all() else scales * (8 - zeros)


def _int8(blocks: torch.Tensor) -> Parts:
    return _as(blocks[..., 4:], torch.int8).flatten(1), _as(blocks[..., :4], torch.float32), None


def _fp8(blocks: torch.Tensor) -> Parts:
    return _as(blocks[..., 4:], torch.float8_e4m3fn).flatten(1), _as(blocks[..., :4], torch.float32), None


def _gguf(blocks: torch.Tensor, bits: int, affine: bool) -> Parts:
    """Q4_0, Q4_1, Q5_0, Q5_1: d (and m) in half, the fifth bits, the codes."""
    head = 4 if affine else 2
    scales = _as(blocks[..., :2], torch.float16).float()
    codes = _nibbles(blocks[..., -16:])
    if bits == 5:
        fifth = blocks[..., head : head + 4, None] >> torch.arange(8, device=blocks.device) & 1
        codes += (fifth.flatten(2) << 4).to(torch.int8)
    if not affine:
        return (codes - (1 << bits - 1)).flatten(1), scales, None
    offsets = _as(blocks[..., 2:4], torch.float16).float()
    return _centred(codes.flatten(1), scales, offsets, bits)


def _q8_0(blocks: torch.Tensor) -> Parts:
    return _as(blocks[..., 2:], torch.int8).flatten(1), _as(blocks[..., :2], torch.float16).float(), None


def _k_quants(blocks: torch.Tensor, bits: int) -> Parts:
    """Q4_K, Q5_K: eight groups of 32 share d and dmin in half; each has a scale and a minimum of 6 bits."""
    d, minimum = (_as(blocks[..., i : i + 2], torch.float16).float() for i in (0, 2))
    first, second, third = (blocks[..., i : i + 4] for i in (4, 8, 12))
    factors = torch.cat([first & 63, third & 15 | first >> 6 << 4], dim=-1)
    minima = torch.cat([second & 63, third >> 4 | second >> 6 << 4], dim=-1)
    pairs = _in(blocks[..., -128:], 4, 1, 32)
    codes = torch.cat([pairs & 15, pairs >> 4], dim=-2).flatten(2, 3)  # [n, blocks, 8, 32]
    if bits == 5:
        shifts = torch.arange(8, device=blocks.device)[:, None]
        codes = codes | (blocks[..., None, 16:48] >> shifts & 1) << 4
    scales, offsets = d[..., None] * factors, -minimum[..., None] * minima
    return _centred(codes.to(torch.int8).flatten(1), scales.flatten(1), offsets.flatten(1), bits)


def _q6_k(blocks: torch.Tensor) -> Parts:
    """Eight times 32 codes share d; each half of them has an int8 scale."""
    low = _in(blocks[..., :128], 2, 1, 64)
    high = _in(blocks[..., 128:192], 2, 1, 32)
    lower = torch.cat([low & 15, low >> 4], dim=-2).flatten(-2)
    upper = torch.cat([high >> shift & 3 for shift in (0, 2, 4, 6)], dim=-2).flatten(-2)
    codes = (lower | upper << 4).to(torch.int8) - 32
    scales = _as(blocks[..., 208:], torch.float16).float()[..., None] * _as(blocks[..., 192:208], torch.int8)
    return codes.flatten(1), scales.flatten(1), None


def _mxfp4(blocks: torch.Tensor) -> Parts:
    """A scale's exponent, then codes of E2M1 (OCP Microscaling), here as twice their value."""
    exponent = blocks[..., 0].int()
    halved = torch.where(exponent < 2, 0x00200000 << exponent.clamp(max=1), (exponent - 1) << 23).view(torch.float32)
    doubled = torch.tensor(_MXFP4_DOUBLED, dtype=torch.int8, device=blocks.device)
    return doubled[_nibbles(blocks[..., 1:]).int()].flatten(1), halved, None


def _centred(codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor, bits: int) -> Parts:
    """Codes of four bits from 0 on are held as -8 to 7."""
    return (codes - 8, scales, offsets + 8 * scales) if bits == 4 else (codes, scales, offsets)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """[..., 16] bytes to int8 [..., 32]: the low halves, then the high ones."""
    return torch.cat([packed & 15, packed >> 4], dim=-1).to(torch.int8)


def _in(raw: torch.Tensor, *sizes: int) -> torch.Tensor:
    """The last axis as several."""
    return raw.reshape(*raw.shape[:-1], *sizes)


def _as(raw: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Bytes [n, blocks, b] read as another type: [n, blocks] where a block has one of them."""
    values = raw.contiguous().view(dtype)
    return values.squeeze(-1) if dtype.itemsize > 1 and values.shape[-1] == 1 else values


_FOUR_BITS = ("INT4", "Q4")
_PARTS: dict[str, Callable[[torch.Tensor], Parts]] = {
    **{name: {"INT4": _int4, "INT8": _int8, "FP8_": _fp8}[name[:4]] for name in OWN_GROUPS},
    **{f"Q{bits}_{affine}": partial(_gguf, bits=bits, affine=bool(affine)) for bits in (4, 5) for affine in (0, 1)},
    **{f"Q{bits}_K": partial(_k_quants, bits=bits) for bits in (4, 5)},
    "Q6_K": _q6_k,
    "Q8_0": _q8_0,
    "MXFP4": _mxfp4,
}
