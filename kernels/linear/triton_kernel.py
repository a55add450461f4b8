"""Which kernel takes a product, by the weight's kind and the rows of x; each says itself what it moves at least.

Few rows: the weight's bytes are all that counts, and they are read as they are. Many: the matrix units are the limit,
and nothing beats the vendor's own product of plain weights.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton

from kernels.device import DeviceTensor
from kernels.linear.device_weight import SPAN, DeviceWeight, JoinedDeviceWeight
from kernels.linear.triton_dequantise import dequantise_kernel
from kernels.linear.triton_weight_only import weight_only_kernel
from kernels.tuning import choose

FEW_ROWS = (
    64  # up to here the weight-only kernel is tried; below, it is what a product of plain weights is tried against
)
WRITTEN_OUT = 1 << 26  # weights that are dequantised at once
TICKETS = 1 << 14


class Tile(NamedTuple):
    """Of the weight-only kernel."""

    block_m: int
    block_n: int
    split: int
    num_warps: int
    num_stages: int


VENDORS = Tile(0, 0, 0, 0, 0)  # the vendor's product of plain weights, written out for it where they are quantised


def linear(
    x: DeviceTensor,
    weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight,
    bias: torch.Tensor | None = None,
    residual: DeviceTensor | None = None,
) -> DeviceTensor:
    """As kernels.linear.linear, in x's type; the sums are float32."""
    parts = weight.parts if isinstance(weight, JoinedDeviceWeight) else (weight,)
    widths = [part.n if isinstance(part, DeviceWeight) else len(part) for part in parts]
    y = x.tensor.new_empty(len(x.tensor), sum(widths))
    added = None if residual is None else residual.tensor
    column = 0
    for part, width in zip(parts, widths, strict=True):
        columns = slice(column, column + width)
        own_bias = None if bias is None else bias[columns]
        own_residual = None if added is None else added[:, columns]
        _product(x.tensor, part, own_bias, own_residual, y[:, columns])
        column += width
    return DeviceTensor(y)


def _product(
    x: torch.Tensor,
    weight: torch.Tensor | DeviceWeight,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    y: torch.Tensor,
) -> None:
    """Into y [rows, n], whose own rows may be further apart."""

    def run(tile: Tile) -> None:
        if tile == VENDORS:
            _vendors(x, weight, bias, residual, y)
        else:
            _weight_only(x, weight, bias, residual, y, tile)

    rows = len(x)
    tiles = tiles_of(rows, weight, _processors(x.device))
    run(tiles[0] if len(tiles) == 1 else choose("linear", _key(rows, weight, x.dtype), tiles, run))


def _key(rows: int, weight: torch.Tensor | DeviceWeight, dtype: torch.dtype) -> tuple[object, ...]:
    """Batches of nearly as many rows share a choice."""
    bucket = triton.next_power_of_2(rows)
    if isinstance(weight, torch.Tensor):
        return (bucket, *weight.shape, str(dtype))
    return (bucket, weight.n, weight.k, str(dtype), str(weight.codes.dtype), weight.group, weight.offsets is not None)


def tiles_of(rows: int, weight: torch.Tensor | DeviceWeight, processors: int) -> list[Tile]:
    """What is worth trying, the likeliest first: narrow tiles, and splits of k so that every processor reads."""
    if rows > FEW_ROWS:
        return [VENDORS]
    block_m = max(16, triton.next_power_of_2(rows))
    n, k = weight.shape if isinstance(weight, torch.Tensor) else (weight.n, weight.k)
    tiles = []
    for block_n, num_warps, num_stages in ((64, 4, 4), (128, 4, 4), (32, 4, 5)):
        wanted = -(-2 * processors // -(-n // block_n))
        split = min(triton.next_power_of_2(wanted), 16, max(1, k // (4 * SPAN)))
        tiles += [Tile(block_m, block_n, split, num_warps, num_stages)]
    return [VENDORS, *tiles] if isinstance(weight, torch.Tensor) else tiles


def _vendors(
    x: torch.Tensor,
    weight: torch.Tensor | DeviceWeight,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    y: torch.Tensor,
) -> None:
    if isinstance(weight, torch.Tensor):
        return _plain(x, weight.to(x.dtype), bias, residual, y)
    count = max(1, WRITTEN_OUT // weight.k)
    for first in range(0, weight.n, count):
        some = slice(first, min(first + count, weight.n))
        added = None if residual is None else residual[:, some]
        _plain(x, written_out(weight, some, x.dtype), None if bias is None else bias[some], added, y[:, some])


def _plain(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, y: torch.Tensor
) -> None:
    if residual is not None:
        torch.addmm(residual, x, weight.T, out=y)
        if bias is not None:
            y += bias
    elif bias is not None:
        torch.addmm(bias.to(x.dtype), x, weight.T, out=y)
    else:
        torch.mm(x, weight.T, out=y)


def written_out(weight: DeviceWeight, rows: slice, dtype: torch.dtype) -> torch.Tensor:
    """Those rows of the weight as plain numbers [rows, k]."""
    count, block_n = rows.stop - rows.start, 32
    y = torch.empty(count, weight.k, dtype=dtype, device=weight.codes.device)
    grid = (triton.cdiv(count, block_n), triton.cdiv(weight.k, SPAN))
    dequantise_kernel[grid](
        *(*_held(weight), y, rows.start, count, weight.n, weight.k),
        *(_group(weight), block_n),
    )
    return y


def _weight_only(
    x: torch.Tensor,
    weight: torch.Tensor | DeviceWeight,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    y: torch.Tensor,
    tile: Tile,
) -> None:
    (rows, k), n, split = x.shape, y.shape[1], tile.split
    partial = x.new_empty(split, rows, n, dtype=torch.float32) if split > 1 else None
    grid = (triton.cdiv(n, tile.block_n), split, triton.cdiv(rows, tile.block_m))
    weight_only_kernel[grid](
        *(x, *_held(weight), bias, residual, y, partial, _tickets(x.device) if split > 1 else None),
        *(rows, n, k, y.stride(0)),
        *(_group(weight), k % SPAN == 0),
        *(tile.block_m, tile.block_n, split),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _held(weight: torch.Tensor | DeviceWeight) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Codes, scales, offsets. FP8 as bytes: not every GPU that has the kernels has the type."""
    if isinstance(weight, torch.Tensor):
        return weight, None, None
    fp8 = weight.codes.dtype == torch.float8_e4m3fn
    return weight.codes.view(torch.uint8) if fp8 else weight.codes, weight.scales, weight.offsets


def _group(weight: torch.Tensor | DeviceWeight) -> int:
    """As the kernels have it: 0 for the whole row."""
    return 0 if isinstance(weight, torch.Tensor) or weight.group == weight.k else weight.group


@cache
def _tickets(device: torch.device) -> torch.Tensor:
    """Zeros, which every kernel that counts on them leaves as zeros."""
    return torch.zeros(TICKETS, dtype=torch.int32, device=device)


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
