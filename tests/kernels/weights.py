"""Random weights in every format, as raw rows and as the float32 that they stand for."""

from __future__ import annotations

import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from kernels.linear.formats import FORMATS, OWN_GROUPS, decode, encode


def raw_weight(type_name: str, n: int, k: int) -> np.ndarray:
    """Raw rows [n, bytes] of a random weight [n, k]."""
    rng = np.random.default_rng(n * k)
    values = rng.standard_normal((n, k)).astype(np.float32) * 0.1
    if type_name in OWN_GROUPS:
        return encode(type_name, *random_parts(type_name, n, k))
    if type_name.endswith("_K"):  # gguf writes none of these
        return _random_k_quants(type_name, n, k, rng)
    if type_name == "BF16":
        return torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint8)
    if type_name in ("F32", "F16"):
        return values.astype({"F32": np.float32, "F16": np.float16}[type_name]).view(np.uint8)
    return quantize(values, GGMLQuantizationType[type_name])


def plain_weight(raw: np.ndarray, type_name: str, n: int, k: int) -> torch.Tensor:
    """Float32 [n, k] of raw rows."""
    own = type_name in OWN_GROUPS
    values = decode(type_name, raw, k) if own else dequantize(raw, GGMLQuantizationType[type_name])
    return torch.from_numpy(np.ascontiguousarray(values, np.float32).reshape(n, k))


def random_parts(
    type_name: str, n: int, k: int, scale_type: torch.dtype = torch.float16
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, scales and zero points of a random weight [n, k] in one of our own formats."""
    rng = np.random.default_rng(n * k)
    groups = k // (OWN_GROUPS[type_name] or k)
    scales = torch.from_numpy(rng.uniform(1e-6, 0.1, (n, groups))).to(scale_type).float().numpy()
    zeros = rng.integers(0, 17, (n, groups))
    if type_name.startswith("INT4"):
        return rng.integers(0, 16, (n, k)).astype(np.uint8), scales, zeros
    if type_name.startswith("INT8"):
        return rng.integers(-128, 128, (n, k)).astype(np.int8), scales, zeros
    values = torch.from_numpy(rng.standard_normal((n, k))).to(torch.float8_e4m3fn)
    return values.view(torch.uint8).numpy(), scales, zeros


def _random_k_quants(type_name: str, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Random bits are codes and scales that every K-quant can have; only the halves must be numbers."""
    blocks = rng.integers(0, 256, (n, k // 256, FORMATS[type_name].block_bytes)).astype(np.uint8)
    halves = rng.uniform(-0.01, 0.01, (n, k // 256, 2)).astype(np.float16).view(np.uint8)
    if type_name == "Q6_K":
        blocks[..., 208:] = halves[..., :2]
    else:
        blocks[..., :4] = halves
    return blocks.reshape(n, -1)
