"""Records layers quantised and dequantised by the libraries that define the formats; run by hand, never by a test.

    pip install --no-deps compressed-tensors==0.20.1 loguru
    pip download --no-deps --no-binary :all: autoawq==0.2.9 auto-gptq==0.7.1, and unpack both
    python tests/data/quantized/record.py .../autoawq-0.2.9/awq .../auto_gptq-0.7.1/auto_gptq

Each file holds the tensors of a layer as that library writes them, what it dequantises them to ("expected", float32),
and in its metadata the `quantization_config` that goes with them.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
COLUMNS = 128


def without_its_init(package: str, folder: Path, *parts: str) -> None:
    """Lets single modules of a package be imported whose own imports no longer work."""
    for name in (package, *(f"{package}.{part}" for part in parts)):
        module = types.ModuleType(name)
        module.__path__ = [str(folder / name[len(package) :].strip(".").replace(".", "/"))]
        sys.modules[name] = module


def save(
    name: str, library: str, config: dict[str, Any], parts: dict[str, torch.Tensor], expected: torch.Tensor
) -> None:
    tensors = {f"layer.{part}": tensor.contiguous() for part, tensor in parts.items() if tensor is not None}
    metadata = {"library": library, "quantization_config": json.dumps(config)}
    save_file(tensors | {"expected": expected.float().contiguous()}, HERE / f"{name}.safetensors", metadata)


def random_layer(rows: int, columns: int = COLUMNS, seed: int = 0) -> torch.nn.Linear:
    torch.manual_seed(seed)
    layer = torch.nn.Linear(columns, rows, bias=False)
    layer.weight.data = torch.randn(rows, columns) * 0.05 + 0.01
    return layer


def affine(weight: torch.Tensor, g_idx: torch.Tensor, bits: int, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points [rows, groups] that cover the weights of each group."""
    groups, top = int(g_idx.max()) + 1, 2**bits - 1
    scales, zeros = torch.empty(len(weight), groups), torch.empty(len(weight), groups)
    for group in range(groups):
        values = weight[:, g_idx == group]
        low, high = values.amin(1).clamp(max=0), values.amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(-low, high)
            low = -high
        scales[:, group] = ((high - low) / top).half().float()
        zeros[:, group] = (-low / scales[:, group]).round().clamp(1, top)
    if symmetric:
        zeros.fill_(2 ** (bits - 1))
    return scales, zeros


def record_awq(folder: Path) -> None:
    without_its_init("awq", folder, "modules", "modules.linear", "utils")
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    layer, group = random_layer(32), 64
    scales, zeros = affine(layer.weight.data, torch.arange(COLUMNS) // group, 4, symmetric=False)
    made = WQLinear_GEMM.from_linear(layer, 4, group, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
    expected = dequantize_gemm(made.qweight, made.qzeros, made.scales.float(), 4, group).t()
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    parts = {"qweight": made.qweight, "qzeros": made.qzeros, "scales": made.scales}
    save("awq", "autoawq 0.2.9", config, parts, expected)


def record_gptq(folder: Path) -> None:
    without_its_init("auto_gptq", folder, "nn_modules", "nn_modules.qlinear")
    from auto_gptq.nn_modules.qlinear.qlinear_cuda import QuantLinear

    for name, bits, symmetric, act_order in (
        ("gptq-sym", 4, True, False),
        ("gptq-asym", 4, False, False),
        ("gptq-act-order", 4, False, True),
        ("gptq-8-bits", 8, True, False),
    ):
        layer, group = random_layer(32), 32
        g_idx = torch.arange(COLUMNS) // group
        g_idx = g_idx[torch.randperm(COLUMNS)] if act_order else g_idx
        scales, zeros = affine(layer.weight.data, g_idx, bits, symmetric)
        made = QuantLinear(bits, group, COLUMNS, 32, False, weight_dtype=torch.float16)
        made.pack(layer.half(), scales, zeros, g_idx)
        parts = {part: getattr(made, part).clone() for part in ("qweight", "qzeros", "scales", "g_idx")}
        made.scales = made.scales.float()
        expected = made(torch.eye(COLUMNS)).t()
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order, "sym": symmetric}
        save(name, "auto-gptq 0.7.1", config, parts, expected)


def record_compressed_tensors() -> None:
    from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    fp8, int4 = {"num_bits": 8, "type": "float"}, {"num_bits": 4, "type": "int"}
    for name, form, columns, weights in (
        ("packed-int4-group", "pack-quantized", 128, int4 | {"strategy": "group", "group_size": 32}),
        ("packed-int4-asym", "pack-quantized", 128, int4 | {"strategy": "group", "group_size": 64, "symmetric": False}),
        ("packed-int4-channel", "pack-quantized", 128, int4 | {"strategy": "channel"}),
        ("int8-channel", "int-quantized", 128, {"num_bits": 8, "type": "int", "strategy": "channel"}),
        ("float8-channel", "float-quantized", 128, fp8 | {"strategy": "channel"}),
        ("float8-tensor", "float-quantized", 128, fp8 | {"strategy": "tensor"}),
        ("float8-block", "float-quantized", 256, fp8 | {"strategy": "block", "block_structure": [16, 128]}),
    ):
        args = QuantizationArgs(**weights)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor: Any = PackedQuantizationCompressor if form == "pack-quantized" else NaiveQuantizationCompressor
        weight = random_layer(24, columns).weight.data
        low, high = _extremes(weight, weights)
        scales, zeros = calculate_qparams(low, high, args)
        state = {"weight": weight, "weight_scale": scales.bfloat16(), "weight_zero_point": zeros}
        parts = compressor.compress(state, scheme)
        expected = compressor.decompress(parts | {"weight_scale": parts["weight_scale"].float()}, scheme)["weight"]
        config = {
            "quant_method": "compressed-tensors",
            "format": form,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}},
            "ignore": ["lm_head"],
        }
        save(name, "compressed-tensors 0.20.1", config, parts, expected)


def _extremes(weight: torch.Tensor, weights: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Least and greatest weight of what shares a scale, in the shape that scales have."""
    rows, columns = weight.shape
    height, width = {
        "group": (1, weights.get("group_size")),
        "channel": (1, columns),
        "tensor": (rows, columns),
        "block": weights.get("block_structure"),
    }[weights["strategy"]]
    blocks = (
        torch.nn.functional.pad(weight, (0, 0, 0, -rows % height)).unflatten(1, (-1, width)).unflatten(0, (-1, height))
    )
    low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
    return (low.flatten(), high.flatten()) if weights["strategy"] == "tensor" else (low, high)


RECORDERS: list[Callable[[], None]] = [
    lambda: record_awq(Path(sys.argv[1])),
    lambda: record_gptq(Path(sys.argv[2])),
    record_compressed_tensors,
]

if __name__ == "__main__":
    for recorder in RECORDERS:
        recorder()
