"""A plan as tables, each figure with its formula. Computes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Column, Table

from backends.capacity import HUB_NAMES, MACHINES, SHAPES
from backends.capacity.plan import FORMULAS
from gateway.cli.console import out, plain

if TYPE_CHECKING:
    from backends.capacity.plan import Advice, Finish, Hardware, Load, Memory, Plan, Prefill, Row

_BAR = 12  # characters


def show_lists() -> None:
    models = Table(
        "model", Column("layers", justify="right"), Column("KV heads x dim", justify="right"), "experts", "source"
    )
    for name, shape in SHAPES.items():
        experts = f"{shape.experts_per_token} of {shape.num_experts}" if shape.num_experts else ""
        models.add_row(
            name, str(shape.num_layers), f"{shape.num_kv_heads} x {shape.head_dim}", experts, HUB_NAMES[name]
        )
    out.print(models)
    numbers = (Column(name, justify="right") for name in ("GiB", "GB/s", "bf16 TFLOP/s"))
    machines = Table("hardware", *numbers, "source")
    for name, one in MACHINES.items():
        rate = "" if one.operations is None else f"{one.operations / 1e12:.0f}"
        machines.add_row(name, f"{one.memory_gib:g}", f"{one.bandwidth / 1e9:.0f}", rate, one.source)
    out.print(machines)


def show(plan: Plan, load: Load) -> None:
    if plan.memory is not None:
        _show_memory(plan.memory, load)
    if plan.rows:
        _show_rows(plan.rows, load)
    if plan.prefill is not None:
        _show_prefill(plan.prefill, load)
    if plan.finish is not None:
        _show_finish(plan.finish)
    if plan.advice is not None:
        _show_advice(plan.advice, load)


def _show_memory(memory: Memory, load: Load) -> None:
    plain(f"weights               {memory.weights_gib:8.1f} GiB   parameters x bits / 8, by format")
    plain(f"KV cache of a token   {memory.kv_kib_per_token:8g} KiB   {FORMULAS['kv_bytes_per_token']}")
    plain(f"left for the KV cache {memory.kv_budget_gib:8.1f} GiB   memory x utilisation - weights")
    held = ", ".join(f"{number:.1f} in {name}" for name, number in memory.conversations.items())
    plain(f"conversations of {load.context} tokens held: {held}   {FORMULAS['conversations']}")


def _show_rows(rows: list[Row], load: Load) -> None:
    experts = any(row.experts_read is not None for row in rows)
    measured = any(row.measured_share is not None for row in rows)
    names = ["batch", "tok/s", "each", "ms", f">= {load.target_tok_s:g}"]
    names += ["experts"] * experts + ["measured"] * measured + ["weights", "KV GB"]
    columns = [*(Column(name, justify="right", no_wrap=True) for name in names), Column("a step", no_wrap=True)]
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    most = max(row.weight_bytes + row.kv_bytes for row in rows)
    for row in rows:
        speed = f"{row.total_tok_s:.0f}", f"{row.per_user_tok_s:.0f}", f"{row.step_seconds * 1e3:.1f}"
        cells = [str(row.batch), *speed, "yes" if row.meets_target else "no"]
        cells += [f"{row.experts_read:.0f}"] if row.experts_read is not None else []
        cells += ["" if row.measured_share is None else f"{row.measured_share:.0%}"] * measured
        table.add_row(*cells, f"{row.weight_bytes / 1e9:.1f}", f"{row.kv_bytes / 1e9:.1f}", _bar(row, most))
    out.print(table)
    plain(f"step = {FORMULAS['step_seconds']}")
    plain(f"tok/s = {FORMULAS['total_tok_s']}; each = {FORMULAS['per_user_tok_s']}. These are upper bounds.")
    if experts:
        plain(f"experts = {FORMULAS['experts_read']}")


def _bar(row: Row, most: float) -> str:
    """Weights dark, KV cache light."""
    weights, kv = (round(each / most * _BAR) for each in (row.weight_bytes, row.kv_bytes))
    return "▓" * weights + "░" * kv


def _show_prefill(prefill: Prefill, load: Load) -> None:
    shared = f"; {prefill.shared_s:.2f} s where its first {load.shared_prefix} are cached" if load.shared_prefix else ""
    plain(
        f"A prompt of {prefill.prompt_tokens} tokens is computed in {prefill.seconds:.2f} s{shared} "
        f"({FORMULAS['prefill_seconds']})."
    )


def _show_finish(finish: Finish) -> None:
    plain(
        f"The last of {finish.people} has the whole answer after {_minutes(finish.sequential_s)} one after the other, "
        f"after {_minutes(finish.batched_s)} together: {finish.speedup:.1f} x."
    )


def _minutes(seconds: float) -> str:
    """As people say it; 311.6 is 5 min 12 s."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{seconds:.1f} s"


def _show_advice(advice: Advice, load: Load) -> None:
    by = {"speed": "more would be slower than the target", "memory": "more find no room"}[advice.limited_by]
    if not advice.max_num_seqs:
        plain(f"Advice: this machine serves nobody at {load.target_tok_s:g} tok/s: {by.replace('more', 'even one')}.")
        return
    share = "" if advice.expected_share == 1 else f", at {advice.expected_share:.0%} of the computed speed, as measured"
    plain(
        f"Advice: --max-num-seqs {advice.max_num_seqs} ({by}{share}); for {load.people} people at once "
        f"{advice.machines} of it."
    )
    if advice.wait_s:
        plain(f"On one of it the last of them waits {_minutes(advice.wait_s)} for a turn ({FORMULAS['wait_s']}).")


def show_flags(model: str, weights: str, kv: str, load: Load, machine: Hardware, seats: int) -> None:
    """What to paste for each engine."""
    fp8 = kv == "fp8"
    hub = HUB_NAMES.get(model, model)
    own = f"hf:{hub}" if model in HUB_NAMES else model
    lines = {
        "native": f"sekisho engine --model {own} --max-num-seqs {seats} --max-model-len {load.context}"
        + (f" --quantization {weights}" if weights != "bf16" else "")
        + (" --kv-cache-dtype fp8" if fp8 else "")
        + (f" --tensor-parallel-size {machine.gpus}" if machine.gpus > 1 else ""),
        "vLLM": f"vllm serve {hub} --max-num-seqs {seats} --max-model-len {load.context} "
        f"--gpu-memory-utilization {machine.utilisation:g}"
        + (" --quantization fp8" if weights == "fp8" else "")
        + (" --kv-cache-dtype fp8" if fp8 else "")
        + (f" --tensor-parallel-size {machine.gpus}" if machine.gpus > 1 else ""),
        "SGLang": f"python -m sglang.launch_server --model-path {hub} --max-running-requests {seats} "
        f"--context-length {load.context} --mem-fraction-static {machine.utilisation:g}"
        + (" --quantization fp8" if weights == "fp8" else "")
        + (" --kv-cache-dtype fp8_e4m3" if fp8 else "")
        + (f" --tp {machine.gpus}" if machine.gpus > 1 else ""),
        "llama.cpp": f"llama-server -m {Path(model).name}.gguf -np {seats} -c {seats * load.context}"
        + (" -ctk q8_0 -ctv q8_0" if fp8 else ""),
        "Ollama": f"OLLAMA_NUM_PARALLEL={seats} OLLAMA_CONTEXT_LENGTH={load.context} ollama serve",
    }
    for engine, line in lines.items():
        plain(f"{engine + ':':<11}{line}")
