"""Plain weights quantised while they are loaded: round to nearest, no calibration. Knows tensors, not models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType
from gguf.quants import quantize as gguf_quantize

from kernels.linear.formats import encode
from native_engine.loading.raw import RawTensor
from native_engine.quantization.dequantize import dequantize

Floats = npt.NDArray[np.float32]


def quantise(raw: RawTensor, method: str) -> RawTensor:
    """A plain matrix [out, in] by one of METHODS; as it is where its columns do not fill that format's groups."""
    if raw.shape[1] % 32:
        return raw
    type_name, data = METHODS[method](dequantize(raw))
    return RawTensor(type_name, raw.shape, data)


def _fp8(values: Floats) -> tuple[str, npt.NDArray[np.uint8]]:
    """E4M3, a scale a row that takes its largest weight to 448."""
    scales = _nonzero(np.abs(values).max(axis=1, keepdims=True) / np.float32(448))
    codes = torch.from_numpy(values / scales).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return "FP8_E4M3", encode("FP8_E4M3", codes, scales)


def _int8(values: Floats) -> tuple[str, npt.NDArray[np.uint8]]:
    """Symmetric, a scale a row."""
    scales = _nonzero(np.abs(values).max(axis=1, keepdims=True) / np.float32(127))
    return "INT8", encode("INT8", np.rint(values / scales).astype(np.int8), scales)


def _int4(values: Floats) -> tuple[str, npt.NDArray[np.uint8]]:
    """With zero points, in groups of 64 columns (32 where 64 do not divide them)."""
    rows, columns = values.shape
    group = 64 if columns % 64 == 0 else 32
    grouped = values.reshape(rows, -1, group)
    low, high = np.minimum(grouped.min(axis=2), 0), np.maximum(grouped.max(axis=2), 0)
    scales = _nonzero((high - low) / np.float32(15)).astype(np.float16).astype(np.float32)
    scales = np.maximum(scales, np.float32(2**-24))
    zeros = np.rint(-low / scales).clip(0, 15)
    codes = (np.rint(grouped / scales[..., None]) + zeros[..., None]).clip(0, 15).astype(np.uint8)
    type_name = f"INT4_{group}"
    return type_name, encode(type_name, codes.reshape(rows, columns), scales, zeros.astype(np.uint8))


def _gguf(type_name: str) -> Callable[[Floats], tuple[str, npt.NDArray[np.uint8]]]:
    return lambda values: (type_name, gguf_quantize(values, GGMLQuantizationType[type_name]))


def _nonzero(scales: Floats) -> Floats:
    return np.where(scales > 0, scales, np.float32(1))


# The names of `--quantization`, as vLLM and GGUF have them.
METHODS: Mapping[str, Callable[[Floats], tuple[str, npt.NDArray[np.uint8]]]] = {
    "fp8": _fp8,
    "int8": _int8,
    "int4": _int4,
    "q8_0": _gguf("Q8_0"),
    "q4_1": _gguf("Q4_1"),
    "q4_0": _gguf("Q4_0"),
}
# Of four bits the head would suffer most, and it is read once a token: it gets eight.
HEAD_METHODS = {"int4": "int8", "q4_1": "q8_0", "q4_0": "q8_0"}
