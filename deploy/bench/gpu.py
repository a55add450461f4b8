#!/usr/bin/env python3
"""A GPU at hand: everything checked and timed, beside what that GPU can do. Tables on standard output.

    .venv/bin/python deploy/bench/gpu.py             # at most ten minutes; --minutes 5 leaves out what no longer fits
    .venv/bin/python deploy/bench/gpu.py --tiny      # on a CPU, in Triton's interpreter: whether it runs at all

Each kernel against its reference; then the whole engine with random weights in the shapes of Qwen3 models. Nothing is
downloaded. Every part is a process of its own, so that one that fails on the GPU takes no other with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from rich.console import Console  # noqa: E402

from backends.capacity import SHAPES, ModelShape  # noqa: E402
from native_engine.config import EngineConfig  # noqa: E402
from native_engine.engine import Engine  # noqa: E402
from native_engine.gpu_timing import Ceilings, Clock, busy_seconds, measure_ceilings, seconds_in_graph  # noqa: E402

KERNELS = "kernels"
MODELS = ("qwen3-8b", "qwen3-0.6b", "qwen3-30b-a3b")  # the one that the aims are set for comes first
FORMATS = ("bf16", "int4", "fp8")
TINY = ModelShape(40, 128, 128, 1, 2, 1, 64)
DECODE_HEAD = (
    f"{'decode':<15}{'weights':<9}{'batch':>6}{'ms/step':>9}{'tok/s':>8}{'limit ms':>10}{'of limit':>10}"
    f"{'GPU ms':>8}{'host ms not hidden':>20}"
)
PREFILL_HEAD = f"{'prefill':<15}{'weights':<9}{'tokens':>6}{'ms':>9}{'tok/s':>8}{'limit ms':>10}{'of limit':>10}"


class Plan(NamedTuple):
    """How a part is measured, and at which sizes. busy: for how long the GPU computes while it calls something."""

    device: torch.device
    dtype: torch.dtype
    clock: Clock
    busy: Callable[[Callable[[], None]], float]
    batches: tuple[int, ...] = (1, 8, 32, 128, 256)
    context: int = 1024
    prompts: tuple[int, ...] = (2048, 8192)
    steps: int = 32
    scale: int = 1  # divides the sizes of what the ceilings are measured on


def tell(line: str) -> None:
    Console(highlight=False, soft_wrap=True).print(line, markup=False)


def on_gpu() -> Plan:
    return Plan(torch.device("cuda"), torch.bfloat16, seconds_in_graph, busy_seconds)


def tiny() -> Plan:
    def clock(call: Callable[[], object]) -> float:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    sizes = {"batches": (1,), "context": 4, "prompts": (5,), "steps": 1, "scale": 256}
    return Plan(torch.device("cpu"), torch.float32, clock, clock, **sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="stop after so many (10)")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: the figures mean nothing")
    parser.add_argument("--part", help=f"only this: {KERNELS}, or a model and a format, as in 'qwen3-8b int4'")
    arguments = parser.parse_args()
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    elif not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} finds no GPU here; --tiny shows on a CPU what this would measure")
    if arguments.part is None:
        run_parts(parts(arguments.tiny), arguments.minutes * 60, ["--tiny"] * arguments.tiny)
        return
    for line in part_lines(tiny() if arguments.tiny else on_gpu(), arguments.part):
        tell(line)


def parts(is_tiny: bool) -> list[str]:
    models = ("tiny",) if is_tiny else MODELS
    return [KERNELS, *(f"{model} {weight_format}" for model in models for weight_format in FORMATS)]


def run_parts(names: list[str], seconds: float, flags: list[str]) -> None:
    """One after the other, while there is time; what is left out, broken off or has failed is said."""
    ends = time.monotonic() + seconds
    for name in names:
        left = ends - time.monotonic()
        if left <= 0:
            tell(f"{name}: left out, the time was over (--minutes)")
            continue
        try:
            done = subprocess.run([sys.executable, __file__, *flags, "--part", name], timeout=left, check=False)
        except subprocess.TimeoutExpired:
            tell(f"{name}: broken off, the time was over (--minutes)")
            continue
        if done.returncode:
            tell(f"{name}: FAILED, see above (exit status {done.returncode})")


def part_lines(plan: Plan, name: str) -> Iterator[str]:
    """The lines of a part, as they get ready, behind the ceilings measured for it."""
    from native_engine.kernel_bench import describe

    ceilings = measure_ceilings(plan.device, plan.clock, plan.scale)
    yield f"\n{name}; {describe(ceilings)}"
    yield from _kernels(plan, ceilings) if name == KERNELS else _model(plan, ceilings, *name.split())


def _kernels(plan: Plan, ceilings: Ceilings) -> Iterator[str]:
    from native_engine.kernel_bench import groups_on_gpu, lines
    from native_engine.kernel_cases import Setting, all_cases

    smallest = Setting(TINY, plan.device, plan.dtype, max(plan.batches), plan.context, max(plan.prompts))
    groups = groups_on_gpu() if plan.device.type == "cuda" else [("tiny", all_cases(smallest))]
    yield from lines(groups, ceilings, plan.clock)


def _model(plan: Plan, ceilings: Ceilings, name: str, weight_format: str) -> Iterator[str]:
    """Prefills, then decodes."""
    from native_engine.engine_bench import decode_limit, fitting, prefill_limit, time_decodes, time_prefill

    shape, label = SHAPES.get(name, TINY), f"{name:<15}{weight_format:<9}"
    engine = started(plan, shape, weight_format)
    yield PREFILL_HEAD
    for tokens in plan.prompts:
        seconds = time_prefill(engine, tokens, shape.vocab_size)
        limit = prefill_limit(shape, tokens, ceilings.operations_per_s)
        yield f"{label}{tokens:>6}{_figures(seconds, tokens, limit)}"
    yield DECODE_HEAD
    batches = fitting(engine, plan.batches, plan.context, plan.steps)
    if left_out := sorted(set(plan.batches) - set(batches)):
        yield f"{label}no room for the contexts of {', '.join(map(str, left_out))}"
    for each in time_decodes(engine, batches, plan.context, shape.vocab_size, plan.busy, plan.steps) if batches else ():
        limit = decode_limit(shape, weight_format, each.batch, plan.context, ceilings.bytes_per_s)
        gpu, host = each.device_seconds * 1e3, (each.seconds - each.device_seconds) * 1e3
        yield f"{label}{each.batch:>6}{_figures(each.seconds, each.batch, limit)}{gpu:>8.2f}{max(host, 0):>20.2f}"


def _figures(seconds: float, tokens: int, limit: float) -> str:
    return f"{seconds * 1e3:>9.2f}{tokens / seconds:>8.0f}{limit * 1e3:>10.2f}{limit / seconds:>10.1%}"


def started(plan: Plan, shape: ModelShape, weight_format: str) -> Engine:
    """An engine on random weights; without a prefix cache, since each prompt is to be computed."""
    from native_engine.device import settled
    from native_engine.device_runner import DeviceRunner
    from native_engine.random_weights import RandomLoader, model_config, no_weights

    config = settled(
        EngineConfig(
            model="random weights",
            device="gpu",
            quantization="none" if weight_format == "bf16" else weight_format,
            dtype=str(plan.dtype).removeprefix("torch."),
            max_num_seqs=max(plan.batches),
            max_model_len=max(*plan.prompts, 2 * plan.context) + 1024,
            enable_prefix_caching=False,
        )
    )
    weights = no_weights(model_config(shape, max_position=config.max_model_len or 0))
    return Engine.create(DeviceRunner(config, weights, make_loader=RandomLoader), config)


if __name__ == "__main__":
    main()
