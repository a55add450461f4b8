"""Every tensor of every family is missed by its name when it is absent, and named with both shapes when it is not the
one that the model's description asks for. In both loaders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kernels.native.library import available
from kernels.native.program import Program
from native_engine import models
from native_engine.loading.errors import ModelError
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights, open_weights
from native_engine.quantization.weights import NativeLoader, TorchLoader, WeightLoader
from tests.native_engine.test_models import CONFIGS, save

FAMILIES = ["gemma2", "gemma3", "llama", "phi4-mini", "qwen2", "qwen3"]
Change = Callable[[Weights, str], Weights]


def native(weights: Weights) -> WeightLoader:
    return NativeLoader(weights, Program(1, 1, num_threads=1), "auto", "auto")


def plain(weights: Weights) -> WeightLoader:
    return TorchLoader(weights, "auto")


LOADERS = [plain, native] if available() else [plain]


@pytest.fixture(scope="module", params=FAMILIES)
def weights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tmp_path_factory.mktemp("model")
    save(CONFIGS[request.param], folder)
    return open_weights(folder)


def without(weights: Weights, name: str) -> Weights:
    return replace(weights, _readers={each: read for each, read in weights._readers.items() if each != name})


def with_a_row_more(weights: Weights, name: str) -> Weights:
    raw = weights.get(name)
    shape = (raw.shape[0] + 1, *raw.shape[1:])
    data = np.zeros((int(np.prod(shape[:-1], dtype=int)), shape[-1] * 4), np.uint8)
    return replace(weights, _readers={**weights._readers, name: lambda: RawTensor("F32", shape, data)})


@pytest.mark.parametrize("make_loader", LOADERS)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without, "tensor {name} is missing"),
        (with_a_row_more, r"tensor {name} has the shape \[.*makes it \[{rows}[,\]]"),
    ],
)
def test_a_damaged_tensor_is_named(
    weights: Weights, change: Change, complaint: str, make_loader: Callable[[Weights], WeightLoader]
) -> None:
    for name in weights.names():
        loader = make_loader(change(weights, name))
        with pytest.raises(ModelError, match=complaint.format(name=name, rows=weights.get(name).shape[0])):
            models.create(weights.config, loader, 16)
