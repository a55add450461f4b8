"""compressed-tensors, as llm-compressor writes it: packed int4 and int8, plain int8, float8.

pack-quantized: weight_packed int32 [out, in * bits / 32], codes offset by 2^(bits - 1); weight_zero_point packed
likewise down the rows. int-quantized: weight int8; float-quantized: weight float8. weight_scale is one, one a row, one
a group of a row or one a block. Which layers are left out ("ignore") and what others are ("targets") the tensors show.
How activations would be rounded (`input_activations`) is left unread: it is the kernel's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from native_engine.loading.raw import RawTensor
from native_engine.quantization.checkpoints.fp8 import scaled
from native_engine.quantization.checkpoints.gptq import by_group
from native_engine.quantization.checkpoints.module import Module, Settings, refuse
from native_engine.quantization.checkpoints.packed import unpack, unpack_down
from native_engine.quantization.codes import CodedWeight, Codes, rows_of_codes

_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense")
_WEIGHTS = {("int", 4), ("int", 8), ("float", 8)}


def check(settings: Settings) -> str | None:
    """What of this checkpoint cannot be read, or None."""
    return next(_faults(settings), None)


def _faults(settings: Settings) -> Iterator[str]:
    groups = list((settings.get("config_groups") or {}).values())
    for form in {settings.get("format", "dense"), *(group["format"] for group in groups if group.get("format"))}:
        if form not in _FORMATS:
            yield f"format {form!r}; known: {', '.join(_FORMATS)}"
    for weights in filter(None, (group.get("weights") for group in groups)):
        if (weights.get("type", "int"), weights.get("num_bits", 8)) not in _WEIGHTS:
            yield f"{weights.get('type', 'int')}{weights.get('num_bits')} weights; known: int4, int8, float8"
    if (settings.get("sparsity_config") or {}).get("format", "dense") != "dense":
        yield "sparse weights; known: dense"
    if (settings.get("transform_config") or {}).get("config_groups"):
        yield "transformed (rotated) weights; known: weights as they are"


def is_quantised(module: Module) -> bool:
    return "weight_packed" in module.parts or "weight_scale" in module.parts


def read(module: Module) -> RawTensor:
    if "weight_packed" in module.parts:
        return _coded(module, *_packed(module))
    if module.parts["weight"].type_name == "F8_E4M3":
        return scaled(module, "weight_scale", _block(module.settings))
    codes = module.bytes("weight", "I8") ^ np.uint8(0x80)
    zeros = module.bytes("weight_zero_point", "I8") ^ np.uint8(0x80) if "weight_zero_point" in module.parts else None
    return _coded(module, 8, codes, zeros)


def _packed(module: Module) -> tuple[int, Codes, Codes | None]:
    """Bits, codes and zero points."""
    rows, columns = module.integers("weight_shape").tolist()
    packed_rows, words = module.shape("weight_packed")
    bits = 32 * words // columns
    if bits not in (4, 8) or packed_rows != rows:
        raise refuse(module.name, f"packed {packed_rows} x {words} for [{rows}, {columns}]; known: 4 and 8 bits")
    codes = unpack(module.bytes("weight_packed", "I32"), bits)[:, :columns]
    if "weight_zero_point" not in module.parts:
        return bits, codes, None
    return bits, codes, unpack_down(module.bytes("weight_zero_point", "I32"), bits)[:rows]


def _coded(module: Module, bits: int, codes: Codes, zeros: Codes | None) -> RawTensor:
    scales: npt.NDArray[np.float32] = module.floats("weight_scale").reshape(-1, module.shape("weight_scale")[-1] or 1)
    scales = np.broadcast_to(scales, (len(codes), scales.shape[1]))
    if zeros is None:
        zeros = np.full(scales.shape, 2 ** (bits - 1), np.uint8)
    order = None
    if "weight_g_idx" in module.parts:
        order = by_group(module.name, module.integers("weight_g_idx"), scales.shape[1])
    if codes.shape[1] % scales.shape[1]:
        raise refuse(module.name, f"codes {codes.shape} and scales {scales.shape} do not fit")
    zeros = np.broadcast_to(zeros, scales.shape)
    return rows_of_codes(
        module.name, CodedWeight(bits, codes if order is None else codes[:, order], scales, zeros, order)
    )


def _block(settings: Settings) -> Any:
    """The one block size of the checkpoint's float8 weights, or None."""
    groups = (settings.get("config_groups") or {}).values()
    blocks = [(group.get("weights") or {}).get("block_structure") for group in groups]
    return next(filter(None, blocks), None)
