"""AWQ as AutoAWQ's "gemm" form has it: 4 bits, zero points, groups of input columns.

qweight int32 [in, out / 8], qzeros int32 [in / group, out / 8], scales float16 [in / group, out].
"""

from __future__ import annotations

from native_engine.loading.raw import RawTensor
from native_engine.quantization.checkpoints.module import Module, Settings, refuse
from native_engine.quantization.checkpoints.packed import Bytes, unpack
from native_engine.quantization.codes import CodedWeight, rows_of_codes

# A word holds eight neighbouring outputs in the order 0 2 4 6 1 3 5 7; here is where each of the eight lies in it.
_PLACE = [0, 4, 1, 5, 2, 6, 3, 7]


def check(settings: Settings) -> str | None:
    """What of this checkpoint cannot be read, or None."""
    bits = settings.get("bits", settings.get("w_bit", 4))
    version = str(settings.get("version", "gemm")).lower()
    if bits != 4:
        return f"{bits} bits; known: 4"
    return None if version == "gemm" else f"version {version!r}; known: 'gemm'"


def is_quantised(module: Module) -> bool:
    return "qweight" in module.parts


def read(module: Module) -> RawTensor:
    scales = module.floats("scales").T
    codes = _in_order(unpack(module.bytes("qweight", "I32"), 4)).T
    zeros = _in_order(unpack(module.bytes("qzeros", "I32"), 4)).T
    if codes.shape[0] != scales.shape[0] or zeros.shape != scales.shape:
        raise refuse(module.name, f"codes {codes.shape}, zeros {zeros.shape} and scales {scales.shape} do not fit")
    return rows_of_codes(module.name, CodedWeight(4, codes, scales, zeros))


def _in_order(fields: Bytes) -> Bytes:
    return fields.reshape(len(fields), -1, 8)[:, :, _PLACE].reshape(len(fields), -1)
