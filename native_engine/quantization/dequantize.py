"""Any tensor of a file as float32: what exactness is measured against, and the way in for types without a kernel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize

from kernels.linear.formats import OWN_GROUPS, decode
from native_engine.loading.raw import RawTensor


def dequantize(raw: RawTensor) -> npt.NDArray[np.float32]:
    """A copy of `raw` as float32, in its own shape, columns in the model's order."""
    if raw.type in OWN_GROUPS:
        return in_model_order(decode(raw.type, raw.data, raw.shape[1]), raw.order)
    values = gguf_dequantize(np.ascontiguousarray(raw.data), GGMLQuantizationType[raw.type])
    return np.array(values, dtype=np.float32, order="C").reshape(raw.shape)


def as_type(raw: RawTensor, type_name: str) -> RawTensor:
    """`raw` converted to F32, F16 or BF16 (rounded to nearest even)."""
    if raw.type == type_name:
        return raw
    values = dequantize(raw)
    if type_name == "BF16":
        bits = values.view(np.uint32)
        data = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    else:
        data = values.astype({"F32": np.float32, "F16": np.float16}[type_name])
    return RawTensor(type_name, raw.shape, data.reshape(raw.shape[0], -1).view(np.uint8))


def in_model_order(values: npt.NDArray[np.float32], order: npt.NDArray[np.int32] | None) -> npt.NDArray[np.float32]:
    """Columns put back where they belong: `order` as in RawTensor."""
    if order is None:
        return values
    restored = np.empty_like(values)
    restored[:, order] = values
    return restored
