"""Which kernel takes a product, by the weight's kind and the rows of x; each says itself what it moves at least.

few rows, any weight                 weight only   the weight's bytes are all that counts: read as they are
many, eight bits of the right kind   quantised     the matrix units are the limit: in eight bits they do twice as much
many, any other                      vendor        nothing beats the vendor's product of plain weights, for which
                                                   quantised ones are written out
"""

from __future__ import annotations

from functools import cache

import torch
import triton

from kernels.device import DeviceTensor, interpreting
from kernels.linear.device_weight import SPAN, DeviceWeight, JoinedDeviceWeight
from kernels.linear.product import Product, Tile
from kernels.linear.triton_dequantise import written_out
from kernels.linear.triton_quantised import STEP_COLUMNS, quantised
from kernels.linear.triton_weight_only import weight_only
from kernels.tuning import choose

FEW_ROWS = 64
MANY_ROWS = 512  # from here on to write the weights out is a small part of the work
WRITTEN_OUT = 1 << 26  # weights at once


def linear(
    x: DeviceTensor,
    weight: torch.Tensor | DeviceWeight | JoinedDeviceWeight,
    bias: torch.Tensor | None = None,
    residual: DeviceTensor | None = None,
) -> DeviceTensor:
    """As kernels.linear.linear, in x's type; sums are float32, and so is what follows them up to the last rounding."""
    parts = weight.parts if isinstance(weight, JoinedDeviceWeight) else (weight,)
    widths = [part.n if isinstance(part, DeviceWeight) else len(part) for part in parts]
    y = x.tensor.new_empty(len(x.tensor), sum(widths))
    start = 0
    for part, width in zip(parts, widths, strict=True):
        columns = slice(start, start + width)
        own_bias = None if bias is None else bias[columns]
        own_residual = None if residual is None else residual.tensor[:, columns]
        if y.numel():
            _compute(Product(x.tensor, part, own_bias, own_residual, y[:, columns]))
        start += width
    return DeviceTensor(y)


def _compute(product: Product) -> None:
    def run(tile: Tile) -> torch.Tensor:
        _KERNELS[tile.kernel](product, tile)
        return product.y

    tiles = tiles_of(product)
    run(tiles[0] if len(tiles) == 1 else choose("linear", _key(product), tiles, run))


def _key(product: Product) -> tuple[str | int, ...]:
    """Batches of nearly as many rows share a choice."""
    (m, n, k), (codes, _, offsets) = product.sizes, product.held
    types = f"{product.x.dtype} {codes.dtype}"
    return (triton.next_power_of_2(m), n, k, types, product.group, "" if offsets is None else "offsets")


def tiles_of(product: Product) -> list[Tile]:
    """What is worth trying, the likeliest first. Whether activations are rounded does not hang on the clock."""
    m, plain = len(product.x), isinstance(product.weight, torch.Tensor)
    if m <= FEW_ROWS:
        block_m = max(16, triton.next_power_of_2(m))
        tiles = [_weight_only(product, block_m, *each) for each in ((64, 4, 4), (128, 4, 4), (32, 4, 5))]
        return [VENDOR, *tiles] if plain else tiles
    if _eight_bits(product):
        return _EIGHT_BIT_TILES
    if plain or m > MANY_ROWS:
        return [VENDOR]
    # no more rows a tile: for 128 of them Triton 3.7.1 makes an empty kernel on sm_100
    return [*(_weight_only(product, *each) for each in ((64, 128, 8, 3), (64, 64, 4, 3))), VENDOR]


def _weight_only(product: Product, block_m: int, block_n: int, num_warps: int, num_stages: int) -> Tile:
    """With k split so far that four programs a processor hide from each other what they wait for, if each has a few
    steps to go."""
    m, n, k = product.sizes
    wanted = triton.cdiv(4 * _processors(product.x.device), triton.cdiv(m, block_m) * triton.cdiv(n, block_n))
    split = min(triton.next_power_of_2(wanted), 16, max(1, k // (4 * SPAN)))
    return Tile("weight only", block_m, block_n, split, num_warps, num_stages)


VENDOR = Tile("vendor")
_EIGHT_BIT_TILES = [
    Tile("quantised", 128, 128, num_warps=8, num_stages=3),
    Tile("quantised", 64, 128, num_warps=4, num_stages=4),
    Tile("quantised", 128, 64, num_warps=4, num_stages=4),
]


def _eight_bits(product: Product) -> bool:
    """Whether activations may be rounded to eight bits too: float32 is asked for where nothing should be."""
    codes, _, offsets = product.held
    if offsets is not None or product.group not in (0, STEP_COLUMNS) or product.x.dtype == torch.float32:
        return False
    return codes.dtype == torch.int8 or (codes.dtype == torch.float8_e4m3fn and _multiplies_fp8(product.x.device))


def _vendor(product: Product, _: Tile) -> None:
    weight, bias, residual = product.weight, product.bias, product.residual
    if isinstance(weight, torch.Tensor):
        _plain(product.x, weight.to(product.x.dtype), bias, residual, product.y)
        return
    count = max(1, WRITTEN_OUT // weight.k)
    for first in range(0, weight.n, count):
        some = slice(first, min(first + count, weight.n))
        own_residual = None if residual is None else residual[:, some]
        plain = written_out(product, some)
        _plain(product.x, plain, None if bias is None else bias[some], own_residual, product.y[:, some])


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


_KERNELS = {"vendor": _vendor, "weight only": weight_only, "quantised": quantised}


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def _multiplies_fp8(device: torch.device) -> bool:
    """NVIDIA's GPUs do so from sm_89 on, and so does the interpreter; AMD's first to do so have another FP8."""
    return interpreting() or (torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9))
