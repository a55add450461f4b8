"""What `sekisho bench kernels` does: each kernel held to its reference, timed, and set beside what the GPU can do; or,
without a GPU, compiled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from backends.capacity import SHAPES
from kernels.ahead_of_time import Compiled, compile_all, table
from kernels.device import DeviceOp, interpreting
from native_engine.gpu_timing import Ceilings, Clock, measure_ceilings, seconds_in_graph
from native_engine.kernel_cases import Case, Setting, all_cases, experts

HEAD = f"{'kernel':<44}{'us':>10}{'GB/s':>9}{'TFLOP/s':>9}{'of limit':>10}  check"
_CONTEXT, _PROMPT = 1024, 2048
_BATCHES = (1, 32)


class Row(NamedTuple):
    """share: of the least time that the measured ceilings allow; fault: where it differs from its reference."""

    name: str
    seconds: float
    bytes_per_s: float
    operations_per_s: float
    share: float
    fault: str = ""


def has_gpu() -> bool:
    return torch.cuda.is_available() and not interpreting()


def compiled() -> tuple[str, list[Compiled]]:
    """The table of all kernels on all GPUs that are compiled for, and the rows with faults."""
    rows = list(compile_all())
    return table(rows), [row for row in rows if row.faults]


def groups_on_gpu() -> Iterator[tuple[str, Iterator[Case]]]:
    """Titles and cases: every op in the shapes of an 8B model, and the experts of a 30B one."""
    device = torch.device("cuda")
    for batch in _BATCHES:
        sizes = (device, torch.bfloat16, batch, _CONTEXT, _PROMPT)
        title = f"{batch} sequences of {_CONTEXT} tokens, a prompt of {_PROMPT}"
        yield f"qwen3-8b, {title}", all_cases(Setting(SHAPES["qwen3-8b"], *sizes))
        yield f"qwen3-30b-a3b, {title}", experts(Setting(SHAPES["qwen3-30b-a3b"], *sizes))


def measure(case: Case, ceilings: Ceilings, clock: Clock) -> Row:
    """Checks, then times. A kernel that cannot be built, for which plain torch stands in, is not timed, nor is one that
    fails."""
    fault = ""
    try:
        case.check()
        if case.op.__name__ in DeviceOp.fallen_back:
            return Row(case.name, math.inf, 0.0, 0.0, 0.0, "cannot be built: plain torch stands in")
    except AssertionError as difference:
        fault = str(difference)
    except Exception as failure:  # the others are to be measured nevertheless
        return Row(case.name, math.inf, 0.0, 0.0, 0.0, f"{type(failure).__name__}: {failure}")
    seconds = clock(case.run)
    bytes_per_s, operations_per_s = case.work.bytes / seconds, case.work.operations / seconds
    return Row(case.name, seconds, bytes_per_s, operations_per_s, ceilings.seconds(case.work) / seconds, fault)


def run_on_gpu() -> Iterator[str]:
    """The lines of the report, as they get ready."""
    ceilings = measure_ceilings(torch.device("cuda"), seconds_in_graph)
    yield describe(ceilings)
    yield from lines(groups_on_gpu(), ceilings, seconds_in_graph)


def lines(groups: Iterable[tuple[str, Iterable[Case]]], ceilings: Ceilings, clock: Clock) -> Iterator[str]:
    """Each group below its title."""
    for title, cases in groups:
        yield f"\n{title}\n{HEAD}"
        for case in cases:
            yield line(measure(case, ceilings, clock))


def describe(ceilings: Ceilings) -> str:
    name = torch.cuda.get_device_name() if has_gpu() else "no GPU"
    copied, multiplied = ceilings.bytes_per_s / 1e9, ceilings.operations_per_s / 1e12
    return f"{name}: copies {copied:.0f} GB/s (read and written), multiplies bfloat16 at {multiplied:.0f} TFLOP/s"


def line(row: Row) -> str:
    return (
        f"{row.name:<44}{row.seconds * 1e6:>10.1f}{row.bytes_per_s / 1e9:>9.0f}{row.operations_per_s / 1e12:>9.1f}"
        f"{row.share:>10.1%}  {row.fault or 'ok'}"
    )
