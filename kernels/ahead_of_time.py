"""Compiles every op's kernels for GPUs that are not there, and tells what became of them.

The processes that compile are told not to interpret, so that this works beside Triton's interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from kernels.machine_code import CodeFacts, amd_facts, nvidia_facts

# Every module that has kernels for a GPU.
MODULES: tuple[str, ...] = (
    "kernels.argmax.triton_kernel",
    "kernels.attention.triton_kernel",
    "kernels.block_copy.triton_kernel",
    "kernels.gated.triton_kernel",
    "kernels.linear.triton_dequantise",
    "kernels.linear.triton_quantised",
    "kernels.linear.triton_weight_only",
    "kernels.moe.triton_kernel",
    "kernels.rms_norm.triton_kernel",
    "kernels.rotary.triton_kernel",
    "kernels.sampling.triton_kernel",
    "kernels.soft_cap.triton_kernel",
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way in which the engine calls a kernel. Each op's `triton_kernel.variants()` lists its own.

    signature: every argument of the kernel in order, with Triton's name of its type: "*bf16", "i32", "fp32", and
    "constexpr" for those in `constants`. Pointers are taken to be aligned to 16 bytes, and `multiples` names the
    integers that are multiples of 16. `backends`: where the kernel is called so. `wide`: whether most of what it loads
    lies side by side, so that there must be loads of 16 bytes. `spills`: how many bytes of a thread's registers may go
    through memory; more than none needs a reason beside it.
    """

    name: str
    kernel: Any  # a triton.JITFunction
    signature: dict[str, str]
    constants: dict[str, Any]
    multiples: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    min_capability: int = 80
    backends: tuple[str, ...] = ("cuda", "hip")
    wide: bool = True
    spills: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU to compile for: `shared` is the most shared memory, in bytes, that a block may take there."""

    name: str
    backend: str
    arch: int | str
    warp_size: int
    shared: int


# Shared memory a block: CUDA C++ programming guide, table of technical specifications per compute capability; the local
# data share of a workgroup: CDNA3 ISA, section 1.
TARGETS = (
    Target("sm_80", "cuda", 80, 32, 163 * 1024),
    Target("sm_90", "cuda", 90, 32, 227 * 1024),
    Target("sm_100", "cuda", 100, 32, 227 * 1024),
    Target("gfx942", "hip", "gfx942", 64, 64 * 1024),
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a variant on a target. `faults`: all that is wrong with it, in words."""

    module: str
    variant: str
    target: str
    facts: CodeFacts | None
    faults: tuple[str, ...]


def compile_all(
    modules: Sequence[str] = MODULES, targets: Sequence[Target] = TARGETS, *, whole: bool = True, processes: int = 2
) -> Iterator[Compiled]:
    """Every variant of every module on every target, as they get ready; a module that cannot be imported is a fault.

    Not `whole`: a kernel's first variant on every target, and each other one on one of them in turn.
    """
    pairs = [(module, target) for module in modules for target in targets]
    with ProcessPoolExecutor(processes, get_context("spawn"), _compile_for_real) as pool:
        for done in pool.map(partial(_compile_module, targets=targets, whole=whole), pairs):
            yield from done


def _compile_for_real() -> None:
    os.environ["TRITON_INTERPRET"] = "0"  # before anything imports Triton, which reads it where a kernel is defined


def _compile_module(pair: tuple[str, Target], targets: Sequence[Target], whole: bool) -> list[Compiled]:
    module, target = pair
    try:
        variants = import_module(module).variants()
    except Exception as fault:
        return [Compiled(module, "-", target.name, None, (f"{type(fault).__name__}: {fault}",))]
    chosen = [each for each in variants if _runs_on(each, target)] if whole else in_turn(variants, target, targets)
    return [compile_variant(module, each, target) for each in chosen]


def in_turn(variants: Sequence[Variant], target: Target, targets: Sequence[Target]) -> list[Variant]:
    """Those for `target`, where only the first variant of each kernel is for all that it runs on."""
    chosen, seen = [], set()
    for number, variant in enumerate(variants):
        possible = [each for each in targets if _runs_on(variant, each)]
        if variant.kernel not in seen:
            chosen += [variant] * (target in possible)
        elif possible and possible[number % len(possible)] == target:
            chosen.append(variant)
        seen.add(variant.kernel)
    return chosen


def _runs_on(variant: Variant, target: Target) -> bool:
    capable = not isinstance(target.arch, int) or target.arch >= variant.min_capability
    return capable and target.backend in variant.backends


def compile_variant(module: str, variant: Variant, target: Target) -> Compiled:
    """Needs a process that does not interpret."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    options = {"num_warps": variant.num_warps, "num_stages": variant.num_stages}
    try:
        source = ASTSource(variant.kernel, variant.signature, variant.constants, _aligned(variant))
        built = triton.compile(source, target=GPUTarget(target.backend, target.arch, target.warp_size), options=options)
    except Exception as fault:  # what Triton raises has no common root
        return Compiled(module, variant.name, target.name, None, (f"{type(fault).__name__}: {fault}",))
    read = nvidia_facts if target.backend == "cuda" else amd_facts
    facts = read(built.asm, built.metadata.shared)
    return Compiled(module, variant.name, target.name, facts, tuple(find_faults(variant, target, facts)))


def _aligned(variant: Variant) -> dict[tuple[int, ...], list[list[object]]]:
    """Triton's attributes of the arguments: which are multiples of 16."""
    return {
        (place,): [["tt.divisibility", 16]]
        for place, (name, kind) in enumerate(variant.signature.items())
        if kind.startswith("*") or name in variant.multiples
    }


def find_faults(variant: Variant, target: Target, facts: CodeFacts) -> Iterator[str]:
    """What keeps a kernel that was built from running, or from running well."""
    if facts.shared > target.shared:
        yield f"{facts.shared} bytes of shared memory, {target.shared} at most"
    if facts.spilled > variant.spills:
        yield f"{facts.spilled} bytes of registers spilled, {variant.spills} at most"
    if facts.dots and not facts.matrix:
        yield "a product without matrix instructions"
    if variant.wide and not facts.wide_loads:
        yield "no load of 16 bytes"


def table(rows: Sequence[Compiled]) -> str:
    """A line for each variant and target; what is wrong stands under its line."""
    heads = ("kernel", "target", "registers", "shared", "spilled", "wide loads", "matrix instructions")
    lines = [heads] + [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = []
    for line, row in zip(lines, [None, *rows], strict=True):
        text.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        text += [f"    FAULT: {fault}" for fault in (row.faults if row else ())]
    return "\n".join(text)


def _cells(row: Compiled) -> tuple[str, ...]:
    name = f"{row.module.removeprefix('kernels.').removesuffix('.triton_kernel')}: {row.variant}"
    if row.facts is None:
        return (name, row.target, *[""] * 5)
    facts = row.facts
    matrix = ", ".join(f"{count} {name}" for name, count in facts.matrix.items()) or "-"
    loads = f"{facts.wide_loads} of {facts.loads}"
    return (name, row.target, str(facts.registers), str(facts.shared), str(facts.spilled), loads, matrix)
