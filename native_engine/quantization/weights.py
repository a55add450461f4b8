"""The two kinds of weights that a model is built on: packed for the native program, or float32 for plain torch."""

from __future__ import annotations

import logging
from typing import Protocol

import numpy as np
import torch

from kernels.embedding import RawTable
from kernels.linear.cpu import PackedWeight, pack
from kernels.linear.formats import FORMATS
from kernels.native.program import Program
from native_engine.loading.weights import RawTensor, Weights
from native_engine.quantization.dequantize import as_type, dequantize

logger = logging.getLogger(__name__)

_TYPE_OF_DTYPE = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class WeightLoader(Protocol):
    """What a model asks for while it is built. Names are Hugging Face's; several names are joined row by row."""

    def linear(self, *names: str) -> torch.Tensor | PackedWeight: ...

    def vector(self, *names: str) -> torch.Tensor:
        """A one-dimensional tensor (a norm, a bias) in float32."""
        ...

    def embedding(self, name: str) -> torch.Tensor | RawTable: ...

    def has(self, name: str) -> bool: ...


class TorchLoader:
    """Everything dequantised to float32: the truth that tests compare with, and the fallback without a compiler."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._names = weights, set(weights.names())

    def has(self, name: str) -> bool:
        return name in self._names

    def linear(self, *names: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([dequantize(self._weights.get(name)) for name in names]))

    def vector(self, *names: str) -> torch.Tensor:
        return self.linear(*names)

    def embedding(self, name: str) -> torch.Tensor:
        return self.linear(name)


class NativeLoader:
    """Quantised weights stay quantised, packed for the native kernels.

    `quantization="none"` dequantises them to `dtype` (auto: float32); otherwise `dtype` applies to plain weights only.
    A type that no kernel holds yet, and rows of different types joined into one matrix, become float32.
    """

    def __init__(self, weights: Weights, program: Program, quantization: str, dtype: str) -> None:
        self._weights, self._program, self._names = weights, program, set(weights.names())
        self._keep_quantised = quantization != "none"
        self._plain_type = _TYPE_OF_DTYPE.get(dtype, "F32" if quantization == "none" else None)
        self.nbytes = 0

    def has(self, name: str) -> bool:
        return name in self._names

    def linear(self, *names: str) -> PackedWeight:
        parts = [self._prepared(name) for name in names]
        if len({part.type for part in parts}) > 1:
            parts = [as_type(part, "F32") for part in parts]
        rows, columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
        weight = pack(np.concatenate([part.data for part in parts]), parts[0].type, rows, columns)
        self.nbytes += weight.nbytes
        return weight

    def vector(self, *names: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([dequantize(self._weights.get(name)) for name in names]))

    def embedding(self, name: str) -> RawTable:
        raw = self._prepared(name)
        self.nbytes += raw.data.nbytes
        return RawTable(self._program, raw.data, raw.type, raw.shape[1])

    def _prepared(self, name: str) -> RawTensor:
        raw = self._weights.get(name)
        plain = raw.type in _TYPE_OF_DTYPE.values()
        if raw.type not in FORMATS:
            logger.warning("%s is of type %s, which has no kernel yet: held as float32", name, raw.type)
            return as_type(raw, "F32")
        if plain or not self._keep_quantised:
            return as_type(raw, self._plain_type or raw.type)
        return raw
