"""The formats a weight may have in memory, and the row layout and arithmetic of those that GGUF does not know.

A weight [n, k] is n raw rows. GGUF's types keep GGUF's rows. The others are, with G columns a group (the number in the
name; without one the group is the whole row):

    INT4      w = scale * (code - zero)   a group: word, then G / 2 bytes   code 0..15, zero 0..31
    INT8      w = scale * code            a group: float32, then G bytes    code int8
    FP8_E4M3  w = scale * code            a group: float32, then G bytes    code an OCP E4M3 byte, as in checkpoints

INT4's word is the float32 scale with the zero in its five lowest bits: scales that were float16 or bfloat16 have zeros
there, so nothing is lost. Each 32 codes lie in 16 bytes, code i low and code 16 + i high, as in GGUF.
A scale for a tensor stands in every row, so that rows of several tensors can be joined; a scale for a block of
128 x 128 stands in each of its rows. Columns of an act-order checkpoint are sorted by group before they are encoded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Format:
    """A row is whole blocks of `block` weights, and `row_bytes` more; `number` is its place in formats.h."""

    number: int
    block: int
    block_bytes: int
    row_bytes: int = 0
    exact_inputs: bool = False  # activations stay float32; otherwise they are rounded to int8 in groups of 32

    def bytes_per_row(self, k: int) -> int:
        return k // self.block * self.block_bytes + self.row_bytes


FORMATS = {
    "Q4_1": Format(0, 32, 20),
    "Q4_0": Format(1, 32, 18),
    "Q8_0": Format(2, 32, 34),
    "F32": Format(3, 1, 4, exact_inputs=True),
    "F16": Format(4, 1, 2, exact_inputs=True),
    "BF16": Format(5, 1, 2, exact_inputs=True),
    "Q5_0": Format(6, 32, 22),
    "Q5_1": Format(7, 32, 24),
    "Q4_K": Format(8, 256, 144),
    "Q5_K": Format(9, 256, 176),
    "Q6_K": Format(10, 256, 210),
    "INT4": Format(11, 32, 16, 4),
    "INT4_32": Format(12, 32, 20),
    "INT4_64": Format(13, 64, 36),
    "INT4_128": Format(14, 128, 68),
    "INT8": Format(15, 32, 32, 4),
    "INT8_32": Format(16, 32, 36),
    "INT8_64": Format(17, 64, 68),
    "INT8_128": Format(18, 128, 132),
    "FP8_E4M3": Format(19, 1, 1, 4, exact_inputs=True),
    "FP8_E4M3_128": Format(20, 128, 132, exact_inputs=True),
    "MXFP4": Format(21, 32, 17),
}
OWN_GROUPS = {  # columns that share a scale in our own formats; 0: the whole row
    name: 0 if each.row_bytes else each.block for name, each in FORMATS.items() if name.startswith(("INT", "FP8"))
}
ZERO_BITS = 31  # of INT4's word


def encode(type_name: str, codes: Array, scales: Array, zeros: Array | None = None) -> npt.NDArray[np.uint8]:
    """Raw rows [n, bytes] of one of our formats from its parts.

    codes [n, k]: uint8 (INT4, FP8_E4M3) or int8 (INT8); scales [n, groups] or what broadcasts to it; zeros (INT4 only)
    likewise, 8 where there are none. Raises ValueError for an FP8 code that is not a number and a zero past 31.
    """
    n, k = codes.shape
    group = OWN_GROUPS[type_name] or k
    shape = (n, k // group)
    words = np.broadcast_to(np.asarray(scales, np.float32), shape)
    parts: npt.NDArray[np.uint8] = codes.view(np.uint8).reshape(*shape, group)
    if type_name.startswith("INT4"):
        offsets = np.broadcast_to(np.asarray(8 if zeros is None else zeros, np.uint32), shape)
        if offsets.size and offsets.max() > ZERO_BITS:
            raise ValueError(f"{type_name} holds zero points up to {ZERO_BITS}, not {offsets.max()}")
        words = (words.view(np.uint32) & ~np.uint32(ZERO_BITS) | offsets).view(np.float32)
        halves = parts.reshape(*shape, group // 32, 2, 16)
        packed = halves[..., 0, :] | halves[..., 1, :] << 4
        parts = np.asarray(packed, np.uint8).reshape(*shape, group // 2)
    elif type_name.startswith("FP8") and (parts & 0x7F == 0x7F).any():
        raise ValueError(f"{type_name} weights hold values that are not numbers")
    heads = np.ascontiguousarray(words)[..., None].view(np.uint8)
    return np.concatenate([heads, parts], axis=-1).reshape(n, -1)


def decode(type_name: str, raw: npt.NDArray[np.uint8], k: int) -> npt.NDArray[np.float32]:
    """Float32 [n, k] of raw rows [n, bytes] of one of our formats."""
    group = OWN_GROUPS[type_name] or k
    groups = np.ascontiguousarray(raw).reshape(raw.shape[0], k // group, -1)
    words, codes = groups[..., :4].copy().view(np.uint32), groups[..., 4:]
    if type_name.startswith("INT4"):
        halves = codes.reshape(*codes.shape[:2], -1, 1, 16)
        nibbles = np.concatenate([halves & 15, halves >> 4], axis=3).reshape(*codes.shape[:2], group)
        scales = (words & ~np.uint32(ZERO_BITS)).view(np.float32)
        values = scales * (nibbles - (words & ZERO_BITS).astype(np.float32))
    elif type_name.startswith("INT8"):
        values = words.view(np.float32) * codes.view(np.int8)
    else:
        values = words.view(np.float32) * _E4M3[codes]
    return np.asarray(values, np.float32).reshape(-1, k)


def _e4m3_values() -> npt.NDArray[np.float32]:
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    magnitude[codes & 0x7F == 0x7F] = np.nan
    return np.where(codes < 128, magnitude, -magnitude).astype(np.float32)


_E4M3 = _e4m3_values()
