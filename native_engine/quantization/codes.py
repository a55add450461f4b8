"""Quantised weights as every method has them (codes, scales, zeros), and their way into the rows that kernels know."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels.linear.formats import OWN_GROUPS, decode, encode
from native_engine.loading.raw import RawTensor
from native_engine.quantization.dequantize import in_model_order

logger = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class CodedWeight:
    """w[row, column] = scales[row, group] * (codes[row, column] - zeros[row, group]).

    codes [rows, columns], of `bits` bits and unsigned; scales and zeros [rows, groups]: columns / groups columns each.
    `order` as in RawTensor: column j of the codes is the model's column order[j].
    """

    bits: int
    codes: Codes
    scales: Floats
    zeros: Codes
    order: npt.NDArray[np.int32] | None = None

    def dequantised(self) -> Floats:
        """Float32, columns in the model's order."""
        width = self.codes.shape[1] // self.scales.shape[1]
        scales, zeros = self.scales.repeat(width, axis=1), self.zeros.repeat(width, axis=1)
        return in_model_order(scales * (self.codes.astype(np.float32) - zeros), self.order)


def rows_of_codes(name: str, weight: CodedWeight) -> RawTensor:
    """INT4 or INT8 rows in the widest groups that hold the weight exactly; float32, with a warning, where none does."""
    bits, centre = weight.bits, np.uint8(2 ** (weight.bits - 1))
    rows, columns = weight.codes.shape
    found = _format("INT4" if bits == 4 else "INT8", columns, columns // weight.scales.shape[1])
    if found is None or (bits == 8 and (weight.zeros != centre).any()):
        return _as_float32(name, weight.dequantised())
    type_name, repeats = found
    scales, zeros = weight.scales.repeat(repeats, axis=1), weight.zeros.repeat(repeats, axis=1)
    codes = weight.codes if bits == 4 else (weight.codes ^ centre).view(np.int8)
    return RawTensor(
        type_name, (rows, columns), encode(type_name, codes, scales, zeros if bits == 4 else None), weight.order
    )


def rows_of_float8(name: str, codes: Codes, scales: Floats) -> RawTensor:
    """FP8_E4M3 rows of codes [rows, columns] times scales [rows, groups]; float32, with a warning, where no format has
    such groups."""
    rows, columns = codes.shape
    width = columns // scales.shape[1]
    found = _format("FP8_E4M3", columns, width)
    if found is None:
        values = decode("FP8_E4M3", encode("FP8_E4M3", codes, np.ones((rows, 1), np.float32)), columns)
        return _as_float32(name, values * scales.repeat(width, axis=1))
    type_name, repeats = found
    return RawTensor(type_name, (rows, columns), encode(type_name, codes, scales.repeat(repeats, axis=1)))


def _format(kind: str, columns: int, width: int) -> tuple[str, int] | None:
    """The format of this kind with the widest groups that `width` is a multiple of, and how often its scales repeat."""
    groups = {group or columns: name for name, group in reversed(OWN_GROUPS.items()) if name.startswith(kind)}
    fitting = [group for group in groups if width % group == 0]
    return (groups[max(fitting)], width // max(fitting)) if fitting else None


def _as_float32(name: str, values: Floats) -> RawTensor:
    logger.warning("%s: no kernel has its kind of groups or zero points: held as float32", name)
    return RawTensor("F32", values.shape, np.ascontiguousarray(values).view(np.uint8))
