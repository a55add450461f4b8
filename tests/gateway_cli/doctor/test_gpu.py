"""`sekisho doctor` on the GPU: what nvidia-smi says, and whether torch fits it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.doctor import gpu
from gateway.cli.doctor.gpu import Gpu

H200 = "NVIDIA H200, 570.86.15, 9.0, 143771"
FITS = {
    "torch": "2.9.0+cu128",
    "cuda": "12.8",
    "rocm": None,
    "usable": True,
    "fault": "",
    "architectures": ["sm_80", "sm_90", "sm_100", "compute_100"],
    "triton": True,
    "native": {"loaded": True, "fault": ""},
}


def with_driver(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def found(monkeypatch: pytest.MonkeyPatch, **torch: Any) -> dict[str, tuple[str, str]]:
    monkeypatch.setattr(gpu, "_described", lambda: FITS | torch)
    return {finding.subject: (finding.verdict, finding.found + finding.remedy) for finding in gpu.engine()}


def test_a_gpu_and_a_torch_that_fit_are_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_driver(f"echo '{H200}'", tmp_path, monkeypatch)
    told = found(monkeypatch)
    assert {verdict for verdict, _ in told.values()} == {"ok"}
    assert "NVIDIA H200, 140 GiB, driver 570.86.15" in told["GPU"][1]


def test_a_driver_that_fails_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_driver("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", tmp_path, monkeypatch)
    verdict, said = found(monkeypatch)["GPU"]
    assert (verdict, "Driver/library version mismatch" in said) == ("fail", True)


@pytest.mark.parametrize(
    ("line", "torch", "told"),
    [
        (H200, {"cuda": None, "torch": "2.9.0+cpu", "usable": False}, "is not built for CUDA"),
        ("NVIDIA H200, 515.43, 9.0, 1", {}, "driver 515.43 is too old for CUDA 12.8"),
        (H200, {"cuda": "13.0"}, "install driver 580.65 or newer"),
        ("Tesla V100, 570.1, 7.0, 1", {}, "the kernels need 8.0"),
        ("New, 570.1, 12.0, 1", {"architectures": ["sm_80", "sm_90"]}, "torch has no code for New"),
        (H200, {"usable": False, "fault": "CUDA unknown error"}, "torch finds no GPU (CUDA unknown error)"),
        (H200, {"triton": False}, "Triton is not installed"),
    ],
)
def test_what_does_not_fit_is_told(
    line: str, torch: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_driver(f"echo '{line}'", tmp_path, monkeypatch)
    verdict, said = found(monkeypatch, **torch)["GPU and torch"]
    assert (verdict, told in said) == ("fail", True), said


@pytest.mark.parametrize(
    ("capability", "architectures", "has"),
    [
        ((8, 9), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),
        ((12, 0), ["sm_90", "compute_90"], True),
        ((10, 3), ["sm_100"], True),
    ],
)
def test_code_runs_on_its_own_major_version_and_ptx_on_later_ones(
    capability: tuple[int, int], architectures: list[str], has: bool
) -> None:
    faults = list(gpu.fit([Gpu("x", (999, 0), capability, 1)], FITS | {"architectures": architectures}))
    assert (faults[0].verdict == "ok") == has


def test_without_a_gpu_or_torch_the_gateway_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = found(monkeypatch, torch=None, fault="No module named 'torch'", native=None)
    assert {subject: verdict for subject, (verdict, _) in told.items()} == {
        "torch": "warn",
        "native kernel": "warn",
        "GPU": "ok",
    }


def test_a_torch_that_ends_its_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'Illegal instruction' >&2; exit 132\n")
    fake.chmod(0o755)
    monkeypatch.setattr(gpu.sys, "executable", str(fake))
    assert "Illegal instruction" in gpu._described()["fault"]


@pytest.mark.slow
def test_what_this_python_computes_with_is_described() -> None:
    assert (
        gpu._described()["torch"]
        == subprocess.run(
            [sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
