"""`sekisho bench kernels` where there is no GPU, and what it says of kernels that do not compile."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from typer.testing import CliRunner, Result

from gateway.cli.console import CliError
from gateway.cli.main import app
from kernels.ahead_of_time import Compiled
from native_engine import kernel_bench


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "kernels", *arguments])


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_without_a_gpu_it_says_so_and_what_can_be_done() -> None:
    result = invoke()
    assert isinstance(result.exception, CliError)
    assert "no GPU" in str(result.exception)
    assert "--compile" in str(result.exception)


def test_without_triton_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else find(name))
    result = invoke("--compile")
    assert isinstance(result.exception, CliError)
    assert "pip install 'sekisho[gpu]'" in str(result.exception)


@pytest.mark.parametrize("faults", [(), ("no load of 16 bytes",)])
def test_the_table_is_printed_and_faults_fail_the_command(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[str, ...]
) -> None:
    rows = [Compiled("kernels.gated.triton_kernel", "silu", "sm_90", None, faults)]
    monkeypatch.setattr(kernel_bench, "compile_all", lambda: rows)
    result = invoke("--compile")
    assert "gated: silu" in result.output
    assert (result.exit_code, "1 kernels" in str(result.exception)) == ((1, True) if faults else (0, False))


def test_on_a_gpu_each_line_is_printed_as_it_gets_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_bench, "has_gpu", lambda: True)
    monkeypatch.setattr(kernel_bench, "run_on_gpu", lambda: iter(["ceilings", "gated 3.1 us"]))
    assert invoke().output == "ceilings\ngated 3.1 us\n"
