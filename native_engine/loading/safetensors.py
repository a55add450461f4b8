"""Safetensors files as memory-mapped raw bytes, bfloat16 included (numpy has none, so the library would copy)."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from native_engine.loading.errors import ModelError
from native_engine.loading.model_config import read_json

# Type name in the file -> bytes of an element. Some are whole by themselves, bytes being blocks of something; the rest
# means nothing without the scales beside it.
WHOLE_TYPES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1}
SUPPORTED_TYPES = WHOLE_TYPES | {"F8_E4M3": 1, "I8": 1, "I32": 4, "I64": 8}
_MAX_HEADER = 100 * 1024 * 1024


@dataclass(frozen=True)
class SafeTensor:
    name: str
    type_name: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


def open_folder(folder: Path, ignored: AbstractSet[str] = frozenset()) -> dict[str, SafeTensor]:
    """The tensors of a model folder but for those `ignored`: one file, or the parts that its index lists."""
    index = read_json(folder / "model.safetensors.index.json")
    names = sorted(set(index["weight_map"].values())) if index else ["model.safetensors"]
    tensors: dict[str, SafeTensor] = {}
    for name in names:
        tensors.update(open_file(folder / name, ignored))
    return tensors


def open_file(path: Path, ignored: AbstractSet[str] = frozenset()) -> dict[str, SafeTensor]:
    if not path.exists():
        raise ModelError(f"{path}: missing. Fetch the model again.")
    try:
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        header, start = _header(mapped)
        left_out = ignored | {"__metadata__"}
        return {name: _tensor(name, entry, mapped[start:]) for name, entry in header.items() if name not in left_out}
    except (ValueError, KeyError, TypeError, OSError) as fault:
        raise ModelError(f"{path}: the file is cut short or damaged ({fault}). Fetch the model again.") from fault


def _header(mapped: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(mapped[:8].tobytes(), "little")
    if length > min(_MAX_HEADER, len(mapped) - 8):
        raise ValueError("header runs past the end of the file")
    header = json.loads(mapped[8 : 8 + length].tobytes())
    if not isinstance(header, dict):
        raise TypeError("header is not an object")
    return header, 8 + length


def _tensor(name: str, entry: dict[str, Any], body: npt.NDArray[np.uint8]) -> SafeTensor:
    begin, end = entry["data_offsets"]
    type_name, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
    if type_name not in SUPPORTED_TYPES:
        raise ModelError(f"tensor {name} has type {type_name}; supported: {', '.join(SUPPORTED_TYPES)}.")
    expected = int(np.prod(shape, dtype=np.int64)) * SUPPORTED_TYPES[type_name]
    if end - begin != expected or end > len(body):
        raise ValueError(f"tensor {name} is not whole")
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    return SafeTensor(name, type_name, shape, body[begin:end].reshape(rows, -1))
