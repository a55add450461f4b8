"""A model's tensors as one rank has them: of each only its part is read and kept, in the format of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from kernels.linear.formats import FORMATS, OWN_GROUPS
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights
from native_engine.parallel.sharding import EMBEDDING, HEAD, Cut, Range, cut_of, has, rank_config
from native_engine.sizing import ConfigurationError

Bytes = npt.NDArray[np.uint8]


class RankWeights(Weights):
    """As Weights, with the rank's configuration. The whole tensors' shapes were checked."""

    def get(self, name: str) -> RawTensor:
        return self._readers[name]() if name in self._readers else super().get(name)


def shard(weights: Weights, rank: int, size: int) -> Weights:
    """Raises ConfigurationError, with the sizes that would do, where the model cannot be shared out by `size`; so does
    reading a tensor whose blocks cannot be."""
    if size == 1:
        return weights
    config = rank_config(weights.config, size)
    names = {name: name for name in weights.names() if has(name, rank)}
    if weights.config.tie_embeddings:
        names[HEAD] = EMBEDDING
    readers: dict[str, Callable[[], RawTensor]] = {
        name: partial(_read, weights, name, source, rank, size) for name, source in names.items()
    }
    return RankWeights(weights.path, config, readers)


def _read(weights: Weights, name: str, source: str, rank: int, size: int) -> RawTensor:
    raw, cut = weights.get(source), cut_of(weights.config, name, rank, size)
    try:
        return raw if cut is None else take(raw, cut)
    except ValueError as fault:
        others = range(2, weights.config.num_heads + 1)
        sizes = ["1", *(str(each) for each in others if _can_be_cut(weights, name, raw, each))]
        raise ConfigurationError(
            f"--tensor-parallel-size is {size}, but {source} {fault}; expected one of {', '.join(sizes)}"
        ) from fault


def _can_be_cut(weights: Weights, name: str, raw: RawTensor, size: int) -> bool:
    cut = cut_of(weights.config, name, 0, size)
    try:
        rank_config(weights.config, size)
        if cut and cut.columns:
            check_columns(raw, cut.columns)
    except ValueError:
        return False
    return True


def take(raw: RawTensor, cut: Cut) -> RawTensor:
    """A part of a tensor, its bytes unchanged. Raises ValueError where blocks or an order of columns forbid it."""
    if cut.columns is not None:
        return take_columns(raw, cut.columns)
    return take_elements(raw, cut.rows) if len(raw.shape) == 1 else take_rows(raw, cut.rows)


def take_rows(raw: RawTensor, ranges: tuple[Range, ...]) -> RawTensor:
    """Past the last row follow rows of zeroes, which are zero in every format."""
    parts = [raw.data[start:stop] for start, stop in ranges]
    rows = sum(stop - start for start, stop in ranges)
    if missing := rows - sum(map(len, parts)):
        parts.append(np.zeros((missing, raw.data.shape[1]), np.uint8))
    data = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return replace(raw, shape=(rows, *raw.shape[1:]), data=data)


def take_elements(raw: RawTensor, ranges: tuple[Range, ...]) -> RawTensor:
    """Of a vector, whose elements lie in one row."""
    elements = raw.data.reshape(raw.shape[0], -1)
    part = np.concatenate([elements[start:stop] for start, stop in ranges])
    return replace(raw, shape=(len(part),), data=part.reshape(1, -1))


def take_columns(raw: RawTensor, columns: Range) -> RawTensor:
    """Whole blocks; what a row has before its blocks (a scale for all of it) stays."""
    check_columns(raw, columns)
    block, block_bytes, row_bytes = _layout(raw.type)
    start, stop = (row_bytes + column // block * block_bytes for column in columns)
    part = raw.data[:, start:stop]
    data = np.concatenate([raw.data[:, :row_bytes], part], axis=1) if row_bytes else np.ascontiguousarray(part)
    return replace(raw, shape=(raw.shape[0], columns[1] - columns[0]), data=data)


def check_columns(raw: RawTensor, columns: Range) -> None:
    if raw.order is not None:
        raise ValueError("is an act-order weight, whose groups lie across all of its columns")
    (block, _, _), width = _layout(raw.type), columns[1] - columns[0]
    if any(column % block for column in columns):
        raise ValueError(f"is of type {raw.type}, in blocks of {block} columns, of which {width} are no multiple")


def _layout(type_name: str) -> tuple[int, int, int]:
    """Columns of a block, its bytes, and the bytes that a row has before its blocks."""
    if type_name in OWN_GROUPS:
        form = FORMATS[type_name]
        return form.block, form.block_bytes, form.row_bytes
    return *GGML_QUANT_SIZES[GGMLQuantizationType[type_name]], 0
