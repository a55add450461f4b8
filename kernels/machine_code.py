"""Reads out of a compiled kernel what decides how well it runs. Knows text and tools, not kernels."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# PTX: a plain load of four words, two double words or more, a copy of 16 bytes into shared memory, a bulk copy.
_NVIDIA_LOAD = re.compile(
    r"^\s*(?:@\S+\s+)?((?:ld\.global|cp\.async\.(?:ca|cg)|cp\.async\.bulk\S*\.shared::\w+\.global).*)$", re.MULTILINE
)
_NVIDIA_WIDE = re.compile(r"v4\.[bfu]32|v2\.[bfu]64|v8\.[bfu]32|v4\.[bfu]64|cp\.async\.bulk|, (?:0x10|16)\b")
_NVIDIA_MATRIX = re.compile(r"^\s*(?:@\S+\s+)?(mma\.sync|wgmma\.mma_async|tcgen05\.mma)", re.MULTILINE)
_NVIDIA_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
_AMD_LOAD = re.compile(r"^\s*((?:global|buffer|flat)_load_\S+)", re.MULTILINE)
_AMD_MATRIX = re.compile(r"^\s*(v_s?mfmac?|v_s?wmmac?)_", re.MULTILINE)
# A product in Triton's own language and the type of what it multiplies.
_DOT = re.compile(r"tt\.dot(?:_scaled)? .*? : tensor<[^>]*x(\w+)>")


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """registers: a thread's; shared: bytes a block; spilled: bytes a thread keeps in memory for want of registers;
    loads: instructions that load from global memory, wide_loads: those of 16 bytes a thread or more; matrix: matrix
    instructions by name; dots: products in the source of types that have matrix instructions."""

    registers: int
    shared: int
    spilled: int
    loads: int
    wide_loads: int
    matrix: dict[str, int]
    dots: int


def nvidia_facts(asm: Mapping[str, Any], shared: int) -> CodeFacts:
    """asm: what `triton.compile` gives for a CUDA target; shared: bytes, from its metadata."""
    loads, wide_loads = nvidia_loads(asm["ptx"])
    registers, spilled = _nvidia_usage(asm["cubin"])
    return CodeFacts(
        registers=registers,
        shared=shared,
        spilled=spilled,
        loads=loads,
        wide_loads=wide_loads,
        matrix=_counted(_NVIDIA_MATRIX.findall(asm["ptx"])),
        dots=_dots(asm["ttir"]),
    )


def nvidia_loads(ptx: str) -> tuple[int, int]:
    """How many instructions load from global memory, and how many of them 16 bytes or more."""
    loads = _NVIDIA_LOAD.findall(ptx)
    return len(loads), sum(bool(_NVIDIA_WIDE.search(each)) for each in loads)


def _nvidia_usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack of a thread; kernels have no arrays of their own, so the stack is what spills."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = _NVIDIA_USAGE.search(usage)
    if found is None:
        raise ValueError(f"cuobjdump tells no resource usage: {usage!r}")
    return int(found[1]), int(found[2])


def amd_facts(asm: Mapping[str, Any], shared: int) -> CodeFacts:
    """asm: what `triton.compile` gives for a HIP target; shared: bytes of local data share, from its metadata."""
    code = asm["amdgcn"]
    loads = _AMD_LOAD.findall(code)
    return CodeFacts(
        registers=_amd_number(code, "vgpr_count"),
        shared=shared,
        spilled=_amd_number(code, "private_segment_fixed_size"),
        loads=len(loads),
        wide_loads=sum("dwordx4" in each for each in loads),
        matrix=_counted(_AMD_MATRIX.findall(code)),
        dots=_dots(asm["ttir"]),
    )


def _amd_number(code: str, name: str) -> int:
    found = re.search(rf"^\s*\.{name}:\s*(\d+)", code, re.MULTILINE)
    if found is None:
        raise ValueError(f"the assembly names no {name}")
    return int(found[1])


def _dots(ttir: str) -> int:
    return sum(kind != "f32" for kind in _DOT.findall(ttir))


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}
