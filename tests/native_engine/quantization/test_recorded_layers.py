"""Layers that the formats' own libraries quantised, read by us: to the very numbers that they dequantise them to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from native_engine.loading.safetensors import open_file
from native_engine.quantization import checkpoints
from native_engine.quantization.dequantize import dequantize

RECORDED = Path(__file__).parents[2] / "data" / "quantized"
TYPES = {
    "awq": "INT4_64",
    "float8-block": "FP8_E4M3_128",
    "float8-channel": "FP8_E4M3",
    "float8-tensor": "FP8_E4M3",
    "gptq-8-bits": "INT8_32",
    "gptq-act-order": "INT4_32",
    "gptq-asym": "INT4_32",
    "gptq-sym": "INT4_32",
    "int8-channel": "INT8",
    "packed-int4-asym": "INT4_64",
    "packed-int4-channel": "INT4",
    "packed-int4-group": "INT4_32",
}


def test_every_recorded_layer_is_looked_at() -> None:
    assert sorted(path.stem for path in RECORDED.glob("*.safetensors")) == sorted(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_a_layer_is_what_its_own_library_makes_of_it(name: str) -> None:
    path = RECORDED / f"{name}.safetensors"
    with safe_open(path, "np") as file:
        settings, expected = json.loads(file.metadata()["quantization_config"]), file.get_tensor("expected")
    readers = checkpoints.readers(path, settings, open_file(path))
    assert list(readers) == ["layer.weight"]
    raw = readers["layer.weight"]()
    assert (raw.type, raw.shape) == (TYPES[name], expected.shape)
    assert (raw.order is not None) == (name == "gptq-act-order")
    np.testing.assert_array_equal(dequantize(raw), expected)
