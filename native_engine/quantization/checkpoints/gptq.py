"""GPTQ as AutoGPTQ and GPTQModel write it: 4 or 8 bits, groups of input columns, with or without act-order.

qweight int32 [in * bits / 32, out], qzeros int32 [in / group, out * bits / 32], scales float16 [in / group, out],
g_idx int32 [in]: the group of each input column. `checkpoint_format` "gptq" stores every zero point less one (modulo
2^bits), "gptq_v2" as it is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from native_engine.loading.raw import RawTensor
from native_engine.quantization.checkpoints.module import Module, Settings, refuse
from native_engine.quantization.checkpoints.packed import unpack, unpack_down
from native_engine.quantization.codes import CodedWeight, rows_of_codes

_FORMATS = ("gptq", "gptq_v2")
_BITS = (4, 8)


def check(settings: Settings) -> str | None:
    """What of this checkpoint cannot be read, or None."""
    bits, form = settings.get("bits"), settings.get("checkpoint_format", "gptq")
    if bits not in _BITS:
        return f"{bits} bits; known: 4, 8"
    return None if form in _FORMATS else f"checkpoint format {form!r}; known: {', '.join(_FORMATS)}"


def is_quantised(module: Module) -> bool:
    return "qweight" in module.parts


def read(module: Module) -> RawTensor:
    scales = module.floats("scales").T
    rows, groups = scales.shape
    g_idx = module.integers("g_idx") if module.settings.get("desc_act") else None
    bits = _bits_of(module, None if g_idx is None else len(g_idx))
    codes = unpack_down(module.bytes("qweight", "I32"), bits).T
    zeros = unpack(module.bytes("qzeros", "I32"), bits)[:, :rows].T
    if module.settings.get("checkpoint_format", "gptq") == "gptq":
        zeros = zeros + np.uint8(1) & np.uint8(2**bits - 1)
    if codes.shape[0] != rows or zeros.shape != scales.shape or codes.shape[1] % groups:
        raise refuse(module.name, f"codes {codes.shape}, zeros {zeros.shape} and scales {scales.shape} do not fit")
    order = None if g_idx is None else by_group(module.name, g_idx, groups)
    return rows_of_codes(
        module.name, CodedWeight(bits, codes if order is None else codes[:, order], scales, zeros, order)
    )


def _bits_of(module: Module, columns: int | None) -> int:
    """Single layers may have other bits than the rest ("dynamic" settings); the length of g_idx tells."""
    if columns is None and "g_idx" in module.parts:
        columns = module.shape("g_idx")[0]
    words = module.shape("qweight")[0]
    bits = int(module.settings["bits"]) if columns is None else 32 * words // columns
    if bits not in _BITS:
        raise refuse(module.name, f"{bits} bits; known: 4, 8")
    return bits


def by_group(name: str, g_idx: npt.NDArray[np.int64], groups: int) -> npt.NDArray[np.int32] | None:
    """The order that brings the columns of a group together; None where they lie so. Raises ModelError where groups
    are not of one size."""
    sizes = np.bincount(g_idx, minlength=groups)
    if len(sizes) != groups or len(set(sizes.tolist())) != 1:
        raise refuse(name, f"its {groups} groups are of {min(sizes)} to {max(sizes)} columns; expected one size")
    order = np.argsort(g_idx, kind="stable").astype(np.int32)
    return None if np.array_equal(order, np.arange(len(order))) else order
