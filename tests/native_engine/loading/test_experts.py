"""Every form in which files store experts gives the same tensors, one for each expert and projection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from native_engine.loading.experts import one_by_one
from native_engine.loading.raw import RawTensor

COUNT, N, K = 3, 4, 64
PREFIX = "model.layers.0.mlp.experts."
RNG = np.random.default_rng(0)


def reader(type_name: str, values: np.ndarray) -> Callable[[], RawTensor]:
    data = np.ascontiguousarray(values).reshape(-1, values.shape[-1]).view(np.uint8)
    return lambda: RawTensor(type_name, values.shape, data)


def floats(raw: RawTensor) -> np.ndarray:
    return dequantize(raw.data, GGMLQuantizationType[raw.type]).reshape(raw.shape)


def test_stacked_weights_and_biases_are_sliced() -> None:
    weight = RNG.standard_normal((COUNT, N, K)).astype(np.float32)
    bias = RNG.standard_normal((COUNT, N)).astype(np.float32)
    stacked = {f"{PREFIX}up_proj.weight": reader("F32", weight), f"{PREFIX}up_proj.bias": reader("F32", bias)}
    apart = one_by_one(stacked, COUNT)
    assert len(apart) == 2 * COUNT
    for expert in range(COUNT):
        assert np.array_equal(floats(apart[f"{PREFIX}{expert}.up_proj.weight"]()), weight[expert])
        assert np.array_equal(floats(apart[f"{PREFIX}{expert}.up_proj.bias"]()), bias[expert])


@pytest.mark.parametrize("type_name", ["F32", "F16"])
def test_interleaved_and_transposed_weights_are_put_in_order(type_name: str) -> None:
    dtype = {"F32": np.float32, "F16": np.float16}[type_name]
    gate_up = RNG.standard_normal((COUNT, K, 2 * N)).astype(dtype)
    bias = RNG.standard_normal((COUNT, 2 * N)).astype(dtype)
    down = RNG.standard_normal((COUNT, N, K)).astype(dtype)
    parts = {"gate_up_proj": gate_up, "gate_up_proj_bias": bias, "down_proj": down}
    apart = one_by_one({PREFIX + name: reader(type_name, values) for name, values in parts.items()}, COUNT)
    assert len(apart) == 5 * COUNT
    for index, part in enumerate(("gate", "up")):
        found = apart[f"{PREFIX}2.{part}_proj.weight"]()
        assert (found.type, found.shape) == (type_name, (N, K))
        assert np.array_equal(floats(found), gate_up[2, :, index::2].T)
        assert np.array_equal(floats(apart[f"{PREFIX}2.{part}_proj.bias"]()), bias[2, index::2])
    assert np.array_equal(floats(apart[f"{PREFIX}1.down_proj.weight"]()), down[1].T)


def test_mxfp4_blocks_hold_the_numbers_that_transformers_reads_in_them() -> None:
    blocks = RNG.integers(0, 256, (COUNT, 2 * N, K // 32, 16), dtype=np.uint8)
    scales = RNG.integers(110, 140, (COUNT, 2 * N, K // 32), dtype=np.uint8)
    stored = {f"{PREFIX}gate_up_proj_blocks": blocks, f"{PREFIX}gate_up_proj_scales": scales}
    apart = one_by_one({name: reader("U8", values) for name, values in stored.items()}, COUNT)
    expected = convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales), dtype=torch.float32)
    assert len(apart) == 2 * COUNT
    for expert in range(COUNT):
        for index, part in enumerate(("gate", "up")):
            found = apart[f"{PREFIX}{expert}.{part}_proj.weight"]()
            assert found.type == "MXFP4"
            assert np.array_equal(floats(found), expected[expert, :, index::2].T.numpy())


def test_experts_stored_one_by_one_keep_their_names_and_mixtral_s_get_them() -> None:
    weight = reader("F32", np.zeros((N, K), np.float32))
    mixtral = "model.layers.0.block_sparse_moe."
    stored = [f"{PREFIX}0.gate_proj.weight", *(f"{mixtral}experts.1.w{number}.weight" for number in (1, 2, 3))]
    apart = one_by_one(dict.fromkeys([*stored, f"{mixtral}gate.weight", "model.norm.weight"], weight), COUNT)
    expected = [f"{PREFIX}{each}_proj.weight" for each in ("0.gate", "1.gate", "1.down", "1.up")]
    assert list(apart) == [*expected, "model.layers.0.mlp.gate.weight", "model.norm.weight"]
