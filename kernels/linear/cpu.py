"""Packs weights for the native kernel and records the product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kernels.native.library import library
from kernels.native.program import Buffer, Kind

# Type names as GGUF spells them, each with (its Format in pack.h, bytes, weights in those bytes).
FORMATS = {
    "Q4_1": (0, 20, 32),
    "Q4_0": (1, 18, 32),
    "Q8_0": (2, 34, 32),
    "F32": (3, 4, 1),
    "F16": (4, 2, 1),
    "BF16": (5, 2, 1),
}
QUANTISED = frozenset({"Q4_1", "Q4_0", "Q8_0"})  # whose product wants its activations in int8
ACTIVATION_GROUP_BYTES = 352  # sizeof(Activations) in cpu.h: 32 columns of eight rows


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight [n, k] in the tiles of pack.h."""

    n: int
    k: int
    type_name: str
    data: npt.NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


def pack(raw: npt.NDArray[np.uint8], type_name: str, n: int, k: int) -> PackedWeight:
    """Packs raw rows [n, bytes per row] as the file has them. Raises ValueError for a type or width it cannot hold."""
    if type_name not in FORMATS:
        raise ValueError(f"weights of type {type_name} have no native kernel; known: {', '.join(FORMATS)}")
    number, unit_bytes, unit = FORMATS[type_name]
    if k % unit:
        raise ValueError(f"{type_name} weights come in groups of {unit}, but the row has {k} values")
    raw = np.ascontiguousarray(raw)
    if raw.nbytes != n * (k // unit) * unit_bytes:
        raise ValueError(
            f"a {type_name} weight [{n}, {k}] takes {n * (k // unit) * unit_bytes} bytes, not {raw.nbytes}"
        )
    lib = library()
    if lib is None:
        raise RuntimeError("the native library is not built")
    size = lib.sekisho_packed_bytes(number, n, k)
    memory = np.empty(size + 64, np.uint8)
    data = memory[-memory.ctypes.data % 64 :][:size]
    lib.sekisho_pack(number, raw.ctypes.data, n, k, data.ctypes.data)
    return PackedWeight(n, k, type_name, data)


def linear(x: Buffer, weight: PackedWeight, bias: torch.Tensor | None = None, residual: Buffer | None = None) -> Buffer:
    """Records the product; see cpu.h for the slots."""
    program, number = x.program, FORMATS[weight.type_name][0]
    if x.width != weight.k:
        raise ValueError(f"the input has {x.width} columns, the weight {weight.k}")
    y = program.buffer(weight.n, x.sampled)
    scratch = None
    if weight.type_name in QUANTISED:
        scratch = program.buffer(weight.k, x.sampled, bytes_per_tile=weight.k // 32 * ACTIVATION_GROUP_BYTES)
    offset = None if bias is None else bias.float().numpy()
    width = residual.width if residual else 0
    pointers = [x, weight.data, y, offset, residual, scratch]
    program.record(Kind.LINEAR, pointers, [weight.k, weight.n, number, weight.n, width], sampled=x.sampled)
    return y
