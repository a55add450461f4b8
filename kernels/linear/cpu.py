"""Packs weights for the native kernel and records the product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kernels.linear.formats import FORMATS
from kernels.native.library import library
from kernels.native.program import Buffer, Kind

__all__ = ["FORMATS", "JoinedWeight", "PackedWeight", "linear", "pack", "scratch_bytes"]

TILE = 16  # as in formats.h: rows of a weight that are packed together
ACTIVATION_GROUP_BYTES = 384  # sizeof(Activations) in cpu.h: 32 columns of eight rows


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight [n, k] in the tiles of formats.h; column j of it is for column `order[j]` of the activations."""

    n: int
    k: int
    type_name: str
    data: npt.NDArray[np.uint8]
    order: npt.NDArray[np.int32] | None = None

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


@dataclass(frozen=True, slots=True)
class JoinedWeight:
    """Weights of the same input whose outputs lie side by side, each of its own type or order of columns."""

    parts: tuple[PackedWeight, ...]

    @property
    def n(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def k(self) -> int:
        return self.parts[0].k


def pack(
    raw: npt.NDArray[np.uint8], type_name: str, n: int, k: int, order: npt.NDArray[np.int32] | None = None
) -> PackedWeight:
    """Packs raw rows [n, bytes per row] as formats.py describes them.

    With `order` [k], the columns of the rows were sorted: column j is that of the activations' column order[j] (an
    act-order checkpoint, whose groups are contiguous only so). Raises ValueError for a type or width it cannot hold.
    """
    if type_name not in FORMATS:
        raise ValueError(f"weights of type {type_name} have no native kernel; known: {', '.join(FORMATS)}")
    chosen = FORMATS[type_name]
    if k % chosen.block:
        raise ValueError(f"{type_name} weights come in groups of {chosen.block}, but the row has {k} values")
    if order is not None and chosen.exact_inputs:
        raise ValueError(f"columns of {type_name} weights are not reordered: sort them back")
    raw, row_bytes = np.ascontiguousarray(raw), chosen.bytes_per_row(k)
    if raw.nbytes != n * row_bytes:
        raise ValueError(f"a {type_name} weight [{n}, {k}] takes {n * row_bytes} bytes, not {raw.nbytes}")
    lib = library()
    if lib is None:
        raise RuntimeError("the native library is not built")
    size = -(-n // TILE) * TILE * row_bytes
    memory = np.empty(size + 64, np.uint8)
    data = memory[-memory.ctypes.data % 64 :][:size]
    lib.sekisho_pack(chosen.number, raw.ctypes.data, n, k, row_bytes, data.ctypes.data)
    return PackedWeight(n, k, type_name, data, order)


def scratch_bytes(weight: PackedWeight) -> int:
    """Bytes that a tile of activations takes once it is rounded for this weight; 0 where it stays float32."""
    return 0 if FORMATS[weight.type_name].exact_inputs else weight.k // 32 * ACTIVATION_GROUP_BYTES


def linear(
    x: Buffer,
    weight: PackedWeight | JoinedWeight,
    bias: torch.Tensor | None = None,
    residual: Buffer | None = None,
) -> Buffer:
    """Records the product, or for joined weights that of each part; see cpu.h for the slots."""
    if x.width != weight.k:
        raise ValueError(f"the input has {x.width} columns, the weight {weight.k}")
    y = x.program.buffer(weight.n, x.sampled)
    offsets = None if bias is None else bias.float().numpy()
    column = 0
    for part in weight.parts if isinstance(weight, JoinedWeight) else (weight,):
        _record(x, part, y, column, offsets, residual)
        column += part.n
    return y


def _record(
    x: Buffer,
    weight: PackedWeight,
    y: Buffer,
    column: int,
    bias: npt.NDArray[np.float32] | None,
    residual: Buffer | None,
) -> None:
    """One product, into the columns of y from `column` on."""
    chosen, tile = FORMATS[weight.type_name], scratch_bytes(weight)
    scratch = x.program.buffer(weight.k, x.sampled, bytes_per_tile=tile) if tile else None
    offset = None if bias is None else bias[column : column + weight.n]
    added = None if residual is None else residual.address + 4 * column
    width = residual.width if residual else 0
    pointers = [x, weight.data, y.address + 4 * column, offset, added, scratch, weight.order]
    integers = [weight.k, weight.n, chosen.number, y.width, width, 0, 0, chosen.bytes_per_row(weight.k)]
    x.program.record(Kind.LINEAR, pointers, integers, sampled=x.sampled)
