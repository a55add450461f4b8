"""The tensors of one linear layer of a quantised checkpoint. Knows no method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from native_engine.loading.errors import ModelError
from native_engine.loading.raw import RawTensor
from native_engine.loading.safetensors import SafeTensor
from native_engine.quantization.dequantize import dequantize

Settings = Mapping[str, Any]  # `quantization_config` of config.json


@dataclass(frozen=True)
class Module:
    """`parts`: its tensors by the last part of their names (qweight, scales, weight ...)."""

    name: str
    parts: Mapping[str, SafeTensor]
    settings: Settings

    def bytes(self, part: str, *types: str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor in its rows. Raises ModelError where it is missing or of another type."""
        tensor = self._part(part)
        if tensor.type_name not in types:
            raise refuse(self.name, f"{part} is of type {tensor.type_name}; expected {' or '.join(types)}")
        return tensor.data

    def floats(self, part: str) -> npt.NDArray[np.float32]:
        """A tensor of plain floats in its own shape."""
        tensor = self._part(part)
        self.bytes(part, "F32", "F16", "BF16")
        return dequantize(RawTensor(tensor.type_name, tensor.shape, tensor.data))

    def integers(self, part: str) -> npt.NDArray[np.int64]:
        """A tensor of int32 or int64, flat."""
        kind = {"I32": np.int32, "I64": np.int64}
        return self.bytes(part, *kind).reshape(-1).view(kind[self._part(part).type_name]).astype(np.int64)

    def shape(self, part: str) -> tuple[int, ...]:
        return self._part(part).shape

    def _part(self, part: str) -> SafeTensor:
        if part not in self.parts:
            raise refuse(self.name, f"tensor {self.name}.{part} is missing")
        return self.parts[part]


def refuse(name: str, reason: str) -> ModelError:
    return ModelError(f"{name}: its quantised weight cannot be read: {reason}.")
