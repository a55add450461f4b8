"""The engine's ground: torch, the native library, the GPU with its driver, and whether these fit together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gateway.cli.findings import Finding, fail, ok, warn

_SECONDS = 120
# Oldest driver of a CUDA major version: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
_LEAST_CAPABILITY = (8, 0)  # bfloat16, for which the kernels are written
_QUERY = ("--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader,nounits")


class Gpu(NamedTuple):
    """memory: MiB."""

    name: str
    driver: tuple[int, ...]
    capability: tuple[int, int]
    memory: int


def engine() -> Iterator[Finding]:
    gpus, fault = _gpus()
    torch = _described()
    yield _torch(torch)
    yield _native(torch)
    if fault:
        yield fail("GPU", fault, "mend the driver: nvidia-smi has to list the GPU before anything can use it")
    elif not gpus:
        yield ok("GPU", "none from NVIDIA: the engine runs on the CPU, or on what ROCm finds")
    else:
        names = "; ".join(f"{gpu.name}, {gpu.memory / 1024:.0f} GiB" for gpu in gpus)
        yield ok("GPU", f"{names}, driver {'.'.join(map(str, gpus[0].driver))}")
        yield from fit(gpus, torch)


def fit(gpus: Sequence[Gpu], torch: dict[str, Any]) -> Iterator[Finding]:
    """What of torch does not fit these GPUs; one finding that says so where all does."""
    if torch.get("torch") is None:
        return
    faults = [*_build(gpus, torch)] or [*_capabilities(gpus, torch)]
    if not faults and not torch["usable"]:
        reason = torch["fault"] or "it does not say why"
        faults = [fail("GPU and torch", f"torch finds no GPU ({reason})", "see whether CUDA_VISIBLE_DEVICES hides it")]
    if not faults and not torch["triton"]:
        faults = [fail("GPU and torch", "Triton is not installed", "pip install 'sekisho[gpu]'")]
    yield from faults or [ok("GPU and torch", f"torch is built for CUDA {torch['cuda']}, and they fit")]


def _build(gpus: Sequence[Gpu], torch: dict[str, Any]) -> Iterator[Finding]:
    if torch["cuda"] is None:
        remedy = "start ./sekisho again, which takes a build for CUDA; or pip install 'sekisho[gpu]' from PyPI's torch"
        yield fail("GPU and torch", f"torch {torch['torch']} is not built for CUDA: the GPU is not used", remedy)
        return
    needed = _DRIVERS.get(int(torch["cuda"].partition(".")[0]))
    if needed and (driver := gpus[0].driver[:2]) < needed:
        found = f"driver {_dotted(driver)} is too old for CUDA {torch['cuda']}, which torch is built for"
        yield fail("GPU and torch", found, f"install driver {_dotted(needed)} or newer, or a torch for an older CUDA")


def _capabilities(gpus: Sequence[Gpu], torch: dict[str, Any]) -> Iterator[Finding]:
    for gpu in gpus:
        capability = _dotted(gpu.capability)
        if gpu.capability < _LEAST_CAPABILITY:
            found = f"{gpu.name} has compute capability {capability}; the kernels need {_dotted(_LEAST_CAPABILITY)}"
            yield fail("GPU and torch", found, "use --device cpu, or another engine on this GPU")
        elif not _has_code(gpu.capability, torch["architectures"]):
            built = ", ".join(torch["architectures"])
            found = f"torch has no code for {gpu.name} (compute capability {capability}), only for {built}"
            yield fail("GPU and torch", found, "install a torch that is built for a newer CUDA")


def _has_code(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Code runs on its own major version from its minor one on; PTX (compute_*) on every later one."""
    for architecture in architectures:
        if (found := re.match(r"(sm|compute)_(\d+)(\d)", architecture)) is not None:
            built = (int(found[2]), int(found[3]))
            if built <= capability and (found[1] == "compute" or built[0] == capability[0]):
                return True
    return False


def _gpus() -> tuple[list[Gpu], str]:
    """And what nvidia-smi fails with."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], ""
    try:
        answer = subprocess.run([tool, *_QUERY], capture_output=True, text=True, timeout=20, check=True)
        return [_gpu(line) for line in answer.stdout.splitlines() if line.strip()], ""
    except subprocess.CalledProcessError as error:
        return [], f"nvidia-smi fails: {(error.stdout or error.stderr).strip()[:300]}"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [], f"nvidia-smi fails: {error}"


def _gpu(line: str) -> Gpu:
    name, driver, capability, memory = (part.strip() for part in line.rsplit(",", 3))
    major, _, minor = capability.partition(".")
    return Gpu(name, tuple(map(int, driver.split("."))), (int(major), int(minor)), int(memory))


def _described() -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "native_engine.description"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
        told: dict[str, Any] = json.loads(answer.stdout)
    except subprocess.CalledProcessError as error:
        return {"torch": None, "fault": f"its import ends the process: {error.stderr.strip()[-300:]}", "native": None}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"torch": None, "fault": str(error), "native": None}
    return told


def _torch(told: dict[str, Any]) -> Finding:
    if told["torch"] is not None:
        return ok("torch", f"{told['torch']}")
    found = f"cannot be imported: the gateway runs, the engine does not ({told['fault']})"
    return warn("torch", found, "./sekisho up installs it; else pip install 'sekisho[engine]'")


def _native(told: dict[str, Any]) -> Finding:
    native = told["native"] or {"loaded": False, "fault": "not looked at"}
    if native["loaded"]:
        return ok("native kernel", "loaded")
    remedy = "install a C++ compiler, remove .venv/sekisho.*.stamp, start again"
    why = native["fault"] or "not built"
    return warn("native kernel", f"{why}: the engine runs on plain torch, slower", remedy)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
