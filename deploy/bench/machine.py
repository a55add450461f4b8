"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

_TELLING_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimddp", "i8mm", "bf16")


def describe() -> str:
    flags = " ".join(_flags()) or "no vector flags known"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{_processor()}, {_cores()} cores ({flags}), {memory:.0f} GiB, {system}"


def load_average() -> float:
    return os.getloadavg()[0]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpuinfo() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _processor() -> str:
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return _cpuinfo().get("model name") or platform.machine()


def _flags() -> list[str]:
    known = (_cpuinfo().get("flags") or _cpuinfo().get("Features") or "").split()
    return [flag for flag in _TELLING_FLAGS if flag in known]
