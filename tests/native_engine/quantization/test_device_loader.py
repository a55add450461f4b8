"""Weights as a device holds them, from each kind of file."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from kernels.linear import DeviceWeight, JoinedDeviceWeight
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights, open_weights
from native_engine.quantization.dequantize import as_type, dequantize
from native_engine.quantization.device import DeviceLoader, computing_type
from native_engine.quantization.on_load import quantise
from native_engine.quantization.weights import TorchLoader
from tests.native_engine.tiny_model import write_gguf

HOST = torch.device("cpu")
TABLE = "model.embed_tokens.weight"
Q, K, V = (f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return open_weights(write_gguf(tmp_path_factory.mktemp("m") / "m.gguf"))


def changed(weights: Weights, change: Any) -> Weights:
    """With `change(name, tensor)` in the place of each tensor."""
    readers = {name: partial(lambda name: change(name, weights.get(name)), name) for name in weights.names()}
    return replace(weights, _readers=readers)


def loader(weights: Weights, quantization: str = "auto", dtype: torch.dtype = torch.bfloat16) -> DeviceLoader:
    return DeviceLoader(weights, quantization, dtype, HOST)


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
def test_plain_weights_are_held_in_the_computing_type_joined_row_by_row(type_name: str, weights: Weights) -> None:
    made = loader(changed(weights, lambda name, raw: as_type(raw, type_name)))
    joined = made.linear(Q, K, V)
    assert isinstance(joined, torch.Tensor)
    assert joined.dtype == torch.bfloat16
    expected = TorchLoader(weights, "auto").linear(Q, K, V)
    assert torch.allclose(joined.float(), expected, atol=1e-2)
    assert made.nbytes == 2 * joined.numel()
    assert made.vector("model.norm.weight").dtype == torch.float32


@pytest.mark.parametrize("method", ["int8", "int4", "fp8", "q8_0", "q4_1"])
def test_quantised_weights_stay_so_and_mean_the_same(method: str, weights: Weights) -> None:
    made = loader(weights, method)
    joined = made.linear(Q, K, V)
    assert isinstance(joined, DeviceWeight)
    expected = TorchLoader(weights, method).linear(Q, K, V)
    assert torch.allclose(joined.dequantised(), expected, atol=1e-5)
    assert made.nbytes == joined.nbytes < expected.numel() * 1.2


def test_parts_of_different_kinds_lie_side_by_side_each_as_it_is(weights: Weights) -> None:
    mixed = changed(weights, lambda name, raw: quantise(raw, "int8") if name in (Q, K) else raw)
    joined = loader(mixed).linear(Q, K, V)
    assert isinstance(joined, JoinedDeviceWeight)
    first, second = joined.parts
    assert isinstance(first, DeviceWeight)
    assert first.n == 128 + 64
    assert isinstance(second, torch.Tensor)
    assert torch.allclose(joined.dequantised(), TorchLoader(mixed, "auto").linear(Q, K, V), atol=1e-2)


def test_quantization_none_dequantises(weights: Weights) -> None:
    quantised = changed(weights, lambda name, raw: quantise(raw, "q8_0") if len(raw.shape) > 1 else raw)
    made = loader(quantised, "none", torch.float32)
    assert torch.equal(made.linear(Q), TorchLoader(quantised, "none").linear(Q))
    assert made.nbytes == 4 * 128 * 128


def test_what_no_kernel_holds_becomes_plain_with_a_warning(weights: Weights, caplog: pytest.LogCaptureFixture) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    def unknown(name: str, raw: RawTensor) -> RawTensor:
        return RawTensor("TQ2_0", (4, 256), quantize(np.ones((4, 256), np.float32), GGMLQuantizationType.TQ2_0))

    odd = replace(weights, _readers={"model.layers.0.other.weight": lambda: unknown("", weights.get(Q))})
    with caplog.at_level(logging.WARNING):
        held = loader(odd).linear("model.layers.0.other.weight")
    assert isinstance(held, torch.Tensor)
    assert torch.allclose(held.float(), torch.ones(4, 256), atol=1e-2)
    assert "model.layers.0.other.weight is held as torch.bfloat16: weights of type TQ2_0" in caplog.text


def test_experts_of_several_types_are_held_plain(weights: Weights, caplog: pytest.LogCaptureFixture) -> None:
    mixed = changed(weights, lambda name, raw: quantise(raw, "int8") if name == Q else raw)
    assert isinstance(loader(mixed).experts(Q, K), torch.Tensor)
    assert "of several types" in caplog.text
    assert isinstance(loader(weights, "int8").experts(Q, K), DeviceWeight)


def test_a_tied_head_is_the_embedding_table_itself(weights: Weights) -> None:
    made = loader(weights)
    table = made.embedding(TABLE)
    assert made.linear(TABLE) is table
    assert made.nbytes == table.nbytes
    quantised = loader(weights, "int4")
    assert isinstance(quantised.linear(TABLE), DeviceWeight)


@pytest.mark.parametrize(
    ("dtype", "architecture", "table", "expected"),
    [
        ("auto", "llama", "F16", torch.float16),
        ("auto", "llama", "BF16", torch.bfloat16),
        ("auto", "llama", "F32", torch.bfloat16),
        ("auto", "llama", "Q8_0", torch.bfloat16),
        ("auto", "gemma2", "F16", torch.bfloat16),
        ("float16", "gemma2", "BF16", torch.float16),
        ("float32", "llama", "F16", torch.float32),
    ],
)
def test_what_is_computed_in_follows_the_file_but_for_gemma(
    dtype: str, architecture: str, table: str, expected: torch.dtype, weights: Weights
) -> None:
    raw = weights.get(TABLE)
    kept = as_type(raw, table) if table != "Q8_0" else quantise(raw, "q8_0")
    config = replace(weights.config, architecture=architecture)
    model = replace(changed(weights, lambda name, _: kept), config=config)
    assert computing_type(dtype, model) == expected
    assert dequantize(kept).shape == raw.shape
