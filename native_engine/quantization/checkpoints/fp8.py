"""FP8 weights (E4M3) with scales for the whole matrix, each row, or each block: Qwen, DeepSeek, AutoFP8.

weight float8 [out, in], and weight_scale_inv (blocks, usually 128 x 128; the last may be cut) or weight_scale (one, or
one a row): w = weight * scale, whatever the name says. A static `input_scale`, for activations in float8, is left
unread: a CPU multiplies activations that are more precise than that.
"""

from __future__ import annotations

import math

import numpy as np

from native_engine.loading.raw import RawTensor
from native_engine.quantization.checkpoints.module import Module, Settings, refuse
from native_engine.quantization.codes import rows_of_float8

_SCALES = ("weight_scale_inv", "weight_scale")


def check(settings: Settings) -> str | None:
    """What of this checkpoint cannot be read, or None."""
    form = settings.get("fmt", "e4m3")
    return None if form == "e4m3" else f"format {form!r}; known: 'e4m3'"


def is_quantised(module: Module) -> bool:
    return any(scale in module.parts for scale in _SCALES)


def read(module: Module) -> RawTensor:
    scale = next(each for each in _SCALES if each in module.parts)
    return scaled(module, scale, module.settings.get("weight_block_size") or None)


def scaled(module: Module, scale: str, block: tuple[int, int] | None) -> RawTensor:
    """The float8 weight times the scales in tensor `scale`: one, one a row, or one a block [rows, columns]."""
    values, scales = module.bytes("weight", "F8_E4M3"), module.floats(scale)
    rows, columns = module.shape("weight")
    if block is None or scales.size == 1:
        if scales.size not in (1, rows):
            raise refuse(module.name, f"{scales.size} scales for {rows} rows, and no block size in its configuration")
        scales, block = np.broadcast_to(scales.reshape(-1, 1), (rows, 1)), (1, columns)
    height, width = block
    if scales.shape != (-(-rows // height), -(-columns // width)):
        raise refuse(module.name, f"scales {scales.shape} for blocks {height} x {width} of [{rows}, {columns}]")
    even = math.gcd(width, columns)  # where the last block is cut, the widest groups of one size
    scales = scales.repeat(height, axis=0)[:rows].repeat(width // even, axis=1)[:, : columns // even]
    return rows_of_float8(module.name, values, scales)
