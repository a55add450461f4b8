"""Which device the engine takes, and what it does there that it does not on a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from native_engine import device
from native_engine.config import Default, EngineConfig, on_device, validate
from native_engine.device import settled
from native_engine.sizing import ConfigurationError

CONFIG = EngineConfig(model="m")


def machine(
    monkeypatch: pytest.MonkeyPatch,
    *,
    gpu: bool,
    cuda_build: bool = True,
    triton: bool = True,
    interpreter: bool = False,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.version, "cuda", "13.0" if cuda_build else None)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: object() if triton else None)
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpreter else "0")


@pytest.mark.parametrize("gpu", [True, False])
def test_auto_takes_a_gpu_where_there_is_one(gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=gpu)
    assert settled(CONFIG).device == ("gpu" if gpu else "cpu")
    assert settled(replace(CONFIG, device="cpu")).device == "cpu"


def test_a_gpu_without_triton_is_left_alone_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine(monkeypatch, gpu=True, triton=False)
    assert settled(CONFIG).device == "cpu"
    assert "there is a GPU, but triton is not installed" in caplog.text


def test_a_gpu_in_the_interpreter_is_taken_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=False, interpreter=True)
    assert settled(CONFIG).device == "cpu"
    assert settled(replace(CONFIG, device="gpu")).device == "gpu"
    assert device.torch_device() == torch.device("cpu")


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"gpu": False, "cuda_build": False}, "is built for CPUs: install its build for CUDA or ROCm"),
        ({"gpu": False}, "finds none: see that the driver answers"),
        ({"gpu": True, "triton": False}, r"triton is not installed: pip install 'sekisho\[gpu\]'"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_what_is_missing(
    missing: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, **missing)
    with pytest.raises(ConfigurationError, match=f"--device is 'gpu'; expected a GPU, but .*{told}"):
        settled(replace(CONFIG, device="gpu"))


@pytest.mark.parametrize(
    ("given", "cpu", "gpu"),
    [
        ({}, (64, 512), (256, 8192)),
        ({"max_num_seqs": 600}, (600, 600), (600, 8192)),
        ({"max_num_seqs": 64}, (64, 512), (64, 8192)),
        ({"max_num_batched_tokens": 128}, (64, 128), (128, 128)),
        ({"max_num_seqs": 9000}, (9000, 9000), (9000, 9000)),
    ],
)
def test_a_gpu_takes_more_at_once_where_nobody_said_how_much(
    given: dict[str, int], cpu: tuple[int, int], gpu: tuple[int, int]
) -> None:
    config = EngineConfig(model="m", **given)  # type: ignore[arg-type]
    assert validate(config) == []
    for name, numbers in (("cpu", cpu), ("gpu", gpu)):
        chosen = on_device(config, name)
        assert (chosen.max_num_seqs, chosen.max_num_batched_tokens) == numbers
        assert on_device(chosen, name) == chosen


def test_a_default_is_the_number_that_it_is() -> None:
    assert (Default(64), Default(64) + 1, repr(Default(64))) == (64, 65, "64")
