"""Weights on a device, one tensor after the other, so that the host never holds the whole model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import groupby
from typing import Protocol

import numpy as np
import torch

from kernels.attention.cache import CACHE_TYPES
from kernels.linear import DeviceWeight, JoinedDeviceWeight
from kernels.linear.device_formats import device_weight
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights
from native_engine.quantization.dequantize import dequantize
from native_engine.quantization.weights import TYPE_OF_DTYPE, Source, WeightLoader, kind

logger = logging.getLogger(__name__)

_PLAIN = {type_name: CACHE_TYPES[dtype] for dtype, type_name in TYPE_OF_DTYPE.items()}
_TABLE = "model.embed_tokens.weight"


def computing_type(dtype: str, weights: Weights) -> torch.dtype:
    """What activations are held in. auto: float16 where the file's embeddings are, else bfloat16, which has the range
    of float32; Gemma was trained for that range, so it is never computed in float16 by itself."""
    if dtype != "auto":
        return CACHE_TYPES[dtype]
    fits_half = not weights.config.architecture.startswith("gemma")
    return torch.float16 if fits_half and weights.get(_TABLE).type == "F16" else torch.bfloat16


class CountedLoader(WeightLoader, Protocol):
    """One that counts the bytes of what it gave."""

    nbytes: int


MakeLoader = Callable[[Weights, str, torch.dtype, torch.device], CountedLoader]  # as DeviceLoader is called


class DeviceLoader:
    """Quantised weights as the device's kernels hold them, plain ones in `dtype`; norms and biases in float32.

    `quantization="none"` dequantises all to `dtype`. `nbytes` is what all of them take.
    """

    def __init__(self, weights: Weights, quantization: str, dtype: torch.dtype, device: torch.device) -> None:
        self._source = Source(weights, quantization)
        self.has = self._source.has
        self._keep_quantised = quantization != "none"
        self._dtype, self._device = dtype, device
        self._table: torch.Tensor | None = None
        self.nbytes = 0

    def linear(self, *names: str) -> torch.Tensor | DeviceWeight | JoinedDeviceWeight:
        parts = [self._source.matrix(name) for name in names]
        if names == (_TABLE,) and self._table is not None and self._is_plain(parts[0]):
            return self._table  # a tied head
        groups = groupby(zip(names, parts, strict=True), key=lambda pair: self._kind(pair[1]))
        held = tuple(self._held(*zip(*group, strict=True)) for _, group in groups)
        return held[0] if len(held) == 1 else JoinedDeviceWeight(held)

    def experts(self, *names: str) -> torch.Tensor | DeviceWeight:
        parts = tuple(self._source.matrix(name) for name in names)
        if len({self._kind(part) for part in parts}) == 1:
            return self._held(names, parts)
        logger.warning("%s and its like are of several types: held as %s", names[0], self._dtype)
        return self._plain(parts)

    def vector(self, *names: str) -> torch.Tensor:
        return self._counted(self._source.vector(*names).to(self._device))

    def embedding(self, name: str) -> torch.Tensor:
        table = self._plain((self._source.tensor(name),))
        self._table = table if name == _TABLE else None
        return table

    def _is_plain(self, part: RawTensor) -> bool:
        return part.type in _PLAIN or not self._keep_quantised

    def _kind(self, part: RawTensor) -> object:
        return None if self._is_plain(part) else kind(part)

    def _held(self, names: tuple[str, ...], parts: tuple[RawTensor, ...]) -> torch.Tensor | DeviceWeight:
        """Parts of one kind, row by row. What no kernel holds becomes plain, with a warning."""
        first = parts[0]
        if self._is_plain(first):
            return self._plain(parts)
        rows = np.concatenate([part.data for part in parts])
        try:
            weight = device_weight(first.type, rows, first.shape[1], self._device, first.order)
        except ValueError as fault:
            logger.warning("%s is held as %s: %s", ", ".join(names), self._dtype, fault)
            return self._plain(parts)
        self.nbytes += weight.nbytes
        return weight

    def _plain(self, parts: tuple[RawTensor, ...]) -> torch.Tensor:
        shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        made, row = torch.empty(shape, dtype=self._dtype, device=self._device), 0
        for part in parts:
            made[row : row + part.shape[0]] = _tensor(part).to(self._device)
            row += part.shape[0]
        return self._counted(made)

    def _counted(self, tensor: torch.Tensor) -> torch.Tensor:
        self.nbytes += tensor.nbytes
        return tensor


def _tensor(raw: RawTensor) -> torch.Tensor:
    """On the host: as it is where torch has its type, else float32."""
    if raw.type not in _PLAIN:
        return torch.from_numpy(dequantize(raw))
    return torch.from_numpy(np.array(raw.data, order="C")).view(_PLAIN[raw.type]).view(raw.shape)
