"""What a model asks for while it is built, and the CPU's two answers: packed for the native program, or float32."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import Protocol

import numpy as np
import torch

from kernels.embedding import RawTable
from kernels.linear import DeviceWeight, JoinedDeviceWeight, JoinedWeight, PackedWeight
from kernels.linear.cpu import pack
from kernels.linear.formats import FORMATS
from kernels.native.program import Program
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights
from native_engine.quantization import on_load
from native_engine.quantization.dequantize import as_type, dequantize
from native_engine.sizing import ConfigurationError

logger = logging.getLogger(__name__)

TYPE_OF_DTYPE = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_HEADS = ("lm_head.weight", "model.embed_tokens.weight")  # as matrices; as a table the second is no head
_ROUTER = "mlp.gate.weight"  # of experts: small, and a wrong choice costs more than its bytes


Matrix = torch.Tensor | PackedWeight | JoinedWeight | DeviceWeight | JoinedDeviceWeight


class WeightLoader(Protocol):
    """What a model asks for while it is built. Names are Hugging Face's; several names are joined row by row."""

    def linear(self, *names: str) -> Matrix: ...

    def experts(self, *names: str) -> torch.Tensor | PackedWeight | DeviceWeight:
        """As `linear`, for a kernel that wants one type and the model's order of columns."""
        ...

    def vector(self, *names: str) -> torch.Tensor:
        """A one-dimensional tensor (a norm, a bias) in float32."""
        ...

    def embedding(self, name: str) -> torch.Tensor | RawTable: ...

    def has(self, name: str) -> bool: ...


class Source:
    """A model's tensors, matrices quantised on load where the settings ask for it. `quantization` as in EngineConfig.

    Embedding tables stay as they are: a step reads a row a token of them, straight from the file.
    """

    def __init__(self, weights: Weights, quantization: str) -> None:
        self._weights, self._names = weights, set(weights.names())
        self._method = quantization if quantization in on_load.METHODS else None

    def has(self, name: str) -> bool:
        return name in self._names

    def tensor(self, name: str) -> RawTensor:
        return self._weights.get(name)

    def matrix(self, name: str) -> RawTensor:
        raw = self.tensor(name)
        if self._method is None or name.endswith(_ROUTER):
            return raw
        if raw.type not in TYPE_OF_DTYPE.values():
            raise ConfigurationError(
                f"--quantization is {self._method!r}, but {name} is quantised already ({raw.type}): leave it at auto"
            )
        head = name in _HEADS
        return on_load.quantise(raw, on_load.HEAD_METHODS.get(self._method, self._method) if head else self._method)

    def vector(self, *names: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([dequantize(self.tensor(name)) for name in names]))


class TorchLoader:
    """Everything dequantised to float32: the truth that tests compare with, and the fallback without a compiler."""

    def __init__(self, weights: Weights, quantization: str) -> None:
        self._source = Source(weights, quantization)
        self.has, self.vector = self._source.has, self._source.vector

    def linear(self, *names: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([dequantize(self._source.matrix(name)) for name in names]))

    def experts(self, *names: str) -> torch.Tensor:
        return self.linear(*names)

    def embedding(self, name: str) -> torch.Tensor:
        return self._source.vector(name)


class NativeLoader:
    """Quantised weights stay quantised, packed for the native kernels; `nbytes` is what all of them take.

    `quantization="none"` dequantises them to `dtype` (auto: float32); otherwise `dtype` applies to plain weights only.
    """

    def __init__(self, weights: Weights, program: Program, quantization: str, dtype: str) -> None:
        self._source, self._program = Source(weights, quantization), program
        self.has = self._source.has
        self._keep_quantised = quantization != "none"
        self._plain_type = TYPE_OF_DTYPE.get(dtype, "F32" if quantization == "none" else None)
        self.nbytes = 0

    def linear(self, *names: str) -> PackedWeight | JoinedWeight:
        parts = [self._held(name, self._source.matrix(name)) for name in names]
        weights = [self._packed(list(group)) for _, group in groupby(parts, key=kind)]
        return weights[0] if len(weights) == 1 else JoinedWeight(tuple(weights))

    def experts(self, *names: str) -> PackedWeight:
        parts = [self._held(name, self._source.matrix(name)) for name in names]
        if {kind(part) for part in parts} != {(parts[0].type, None)}:
            logger.warning("%s and its like are of several types or in an order of columns: held as float32", names[0])
            parts = [as_type(part, "F32") for part in parts]
        return self._packed(parts)

    def vector(self, *names: str) -> torch.Tensor:
        vector = self._source.vector(*names)
        self.nbytes += vector.nbytes
        return vector

    def embedding(self, name: str) -> RawTable:
        raw = self._held(name, self._source.tensor(name))
        self.nbytes += raw.data.nbytes
        return RawTable(self._program, raw.data, raw.type, raw.shape[1])

    def _packed(self, parts: list[RawTensor]) -> PackedWeight:
        rows, columns = sum(part.shape[0] for part in parts), parts[0].shape[1]
        data = np.concatenate([part.data for part in parts]) if len(parts) > 1 else parts[0].data
        weight = pack(data, parts[0].type, rows, columns, parts[0].order)
        self.nbytes += weight.nbytes
        return weight

    def _held(self, name: str, raw: RawTensor) -> RawTensor:
        """In the type that it is held in. What no kernel holds becomes float32, with a warning."""
        plain = raw.type in TYPE_OF_DTYPE.values()
        if raw.type not in FORMATS:
            logger.warning("%s is of type %s, which has no kernel yet: held as float32", name, raw.type)
            return as_type(raw, "F32")
        if plain or not self._keep_quantised:
            return as_type(raw, self._plain_type or raw.type)
        return raw


def kind(part: RawTensor) -> tuple[str, bytes | None]:
    """What rows must have in common to be one weight."""
    return part.type, None if part.order is None else part.order.tobytes()
