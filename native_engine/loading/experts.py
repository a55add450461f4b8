"""However a file stores experts: one tensor for each expert and projection, under the names that Qwen3-MoE's files
have (`mlp.experts.7.gate_proj.weight`, and `mlp.gate` for the router). Slices and turns bytes; dequantises nothing.

Stacked forms, E experts of n outputs and k inputs: GGUF's [E, n, k]; gpt-oss's [E, k, n], gate and up interleaved along
n; and gpt-oss's MXFP4, blocks [E, n, k / 32, 16] (two codes a byte, neighbours) with scales [E, n, k / 32].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from native_engine.loading.raw import RawTensor

Reader = Callable[[], RawTensor]

_RENAMED = (
    (re.compile(r"\.block_sparse_moe\."), ".mlp."),  # Mixtral
    (re.compile(r"\.w1\.weight$"), ".gate_proj.weight"),
    (re.compile(r"\.w2\.weight$"), ".down_proj.weight"),
    (re.compile(r"\.w3\.weight$"), ".up_proj.weight"),
    (re.compile(r"\.mlp\.router\."), ".mlp.gate."),  # gpt-oss
    (re.compile(r"\.self_attn\.sinks$"), ".self_attn.sinks.weight"),
)
_STACKED = re.compile(r"(.+\.mlp\.experts\.)(gate_up|gate|up|down)_proj(.*)")
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def one_by_one(readers: Mapping[str, Reader], count: int) -> dict[str, Reader]:
    """`readers` with those of `count` stacked experts taken apart; the others stay as they are."""
    apart: dict[str, Reader] = {}
    for name, reader in readers.items():
        for pattern, plain in _RENAMED:
            name = pattern.sub(plain, name)
        if (stacked := _STACKED.fullmatch(name)) is None:
            apart[name] = reader
        else:
            prefix, projection, stored = stacked.groups()
            apart.update(_experts(prefix, projection, stored, readers, reader, count))
    return apart


def _experts(
    prefix: str, projection: str, stored: str, readers: Mapping[str, Reader], reader: Reader, count: int
) -> Iterator[tuple[str, Reader]]:
    match stored:
        case ".weight":
            kind, read = "weight", partial(_rows, reader)
        case ".bias" | "_bias":
            kind, read = "bias", partial(_bias, reader)
        case "_blocks":
            kind, read = "weight", partial(_mxfp4, reader, readers[f"{prefix}{projection}_proj_scales"])
        case "_scales":  # read with their blocks
            return
        case _:
            kind, read = "weight", partial(_transposed, reader)
    parts = projection.split("_")
    for expert in range(count):
        for index, part in enumerate(parts):
            yield f"{prefix}{expert}.{part}_proj.{kind}", partial(read, expert, slice(index, None, len(parts)))


def _rows(reader: Reader, expert: int, part: slice) -> RawTensor:
    raw = reader()
    _, n, k = raw.shape
    return replace(raw, shape=(n, k), data=raw.data[expert * n : (expert + 1) * n])


def _bias(reader: Reader, expert: int, part: slice) -> RawTensor:
    raw = reader()
    values = _elements(raw)[expert, part]
    return replace(raw, shape=values.shape, data=_bytes(values[None]))


def _transposed(reader: Reader, expert: int, part: slice) -> RawTensor:
    raw = reader()
    values = _elements(raw).reshape(raw.shape)[expert, :, part].T
    return replace(raw, shape=values.shape, data=_bytes(values))


def _mxfp4(blocks: Reader, scales: Reader, expert: int, part: slice) -> RawTensor:
    """GGUF's MXFP4 blocks of 32: the scale's byte, then code i in the low and 16 + i in the high half of byte i."""
    raw = blocks()
    pairs = raw.data.reshape(raw.shape)[expert, part]
    n, groups, _ = pairs.shape
    codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(n, groups, 2, 16)
    exponents = scales().data.reshape(raw.shape[:3])[expert, part]
    data = np.concatenate([exponents[..., None], codes[:, :, 0] | codes[:, :, 1] << 4], axis=-1)
    return RawTensor("MXFP4", (n, groups * 32), data.reshape(n, -1))


def _elements(raw: RawTensor) -> npt.NDArray[np.generic]:
    """The bytes as [rows, elements]; only for types without blocks."""
    return raw.data.view(_UNSIGNED[raw.data.shape[1] // raw.shape[-1]])


def _bytes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8)
