"""A plan as tables, each figure with its formula. Computes nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Column, Table

from backends.capacity import HUB_NAMES, MACHINES, SHAPES
from backends.capacity.engine_lines import NOTES, Setup, engine_lines
from backends.capacity.plan import FORMULAS
from gateway.cli.console import out, plain

if TYPE_CHECKING:
    from backends.capacity.plan import Advice, Finish, Memory, Plan, Prefill, Row
    from backends.capacity.question import Question

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


def show(plan: Plan, question: Question) -> None:
    if plan.memory is not None:
        _show_memory(plan.memory, question)
    if plan.rows:
        _show_rows(plan.rows, _held(plan.memory), question)
    if plan.prefill is not None:
        _show_prefill(plan.prefill, question)
    if plan.finish is not None:
        _show_finish(plan.finish)
    if plan.advice is not None:
        _show_advice(plan.advice, question)


def _show_memory(memory: Memory, question: Question) -> None:
    plain(f"weights               {memory.weights_gib:8.1f} GiB   {FORMULAS['weights_gib']}")
    plain(f"KV cache of a token   {memory.kv_kib_per_token:8g} KiB   {FORMULAS['kv_bytes_per_token']}")
    plain(f"left for the KV cache {memory.kv_budget_gib:8.1f} GiB   {FORMULAS['kv_budget_gib']}")
    held = ", ".join(f"{number:.1f} in {name}" for name, number in memory.conversations.items())
    plain(f"conversations of {question.context} tokens held: {held}   {FORMULAS['conversations']}")


def _held(memory: Memory | None) -> float:
    """Conversations that find room, by the type of the KV cache that is planned with."""
    return math.inf if memory is None else math.floor(next(iter(memory.conversations.values())))


def _show_rows(rows: list[Row], held: float, question: Question) -> None:
    experts = any(row.experts_read is not None for row in rows)
    measured = any(row.measured_share is not None for row in rows)
    names = ["batch", "tok/s", "each", "ms", f">= {question.target:g}"]
    names += ["experts", "skewed"] * experts + ["measured"] * measured + ["weights", "KV GB"]
    columns = [*(Column(name, justify="right", no_wrap=True) for name in names), Column("a step", no_wrap=True)]
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    most = max(row.weight_bytes + row.kv_bytes for row in rows)
    for row in rows:
        speed = f"{row.total_tok_s:.0f}", f"{row.per_user_tok_s:.0f}", f"{row.step_seconds * 1e3:.1f}"
        verdict = "yes" if row.meets_target else "no"
        cells = [str(row.batch), *speed, verdict if row.batch <= held else "no room"]
        cells += [f"{each:.0f}" for each in (row.experts_read, row.experts_read_skewed) if each is not None]
        cells += ["" if row.measured_share is None else f"{row.measured_share:.0%}"] * measured
        table.add_row(*cells, f"{row.weight_bytes / 1e9:.1f}", f"{row.kv_bytes / 1e9:.1f}", _bar(row, most))
    out.print(table)
    plain(f"step = {FORMULAS['step_seconds']}")
    if any(row.measured_share is not None and row.measured_share > 1 for row in rows):
        plain("What was measured is above the upper bound: it was another model, machine or format than this plan's.")
    plain(f"tok/s = {FORMULAS['total_tok_s']}; each = {FORMULAS['per_user_tok_s']}. These are upper bounds.")
    if experts:
        plain(f"experts = {FORMULAS['experts_read']}; the speed is computed with these.")
        plain(f"skewed = {FORMULAS['experts_read_skewed']}; fewer are read, so it would be quicker.")


def _bar(row: Row, most: float) -> str:
    """Weights dark, KV cache light."""
    weights, kv = (round(each / most * _BAR) for each in (row.weight_bytes, row.kv_bytes))
    return "▓" * weights + "░" * kv


def _show_prefill(prefill: Prefill, question: Question) -> None:
    shared = (
        f"; {prefill.shared_s:.2f} s where its first {question.shared_prefix} are cached"
        if question.shared_prefix
        else ""
    )
    plain(
        f"A prompt of {prefill.prompt_tokens} tokens is computed in {prefill.seconds:.2f} s{shared} "
        f"({FORMULAS['prefill_seconds']}); that is its TTFT alone. Where all {question.people} send at once the last "
        f"one's is {prefill.last_shared_s:.1f} s."
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


def _show_advice(advice: Advice, question: Question) -> None:
    by = {"speed": "more would be slower than the target", "memory": "more find no room"}[advice.limited_by]
    if not advice.max_num_seqs:
        plain(f"Advice: this machine serves nobody at {question.target:g} tok/s: {by.replace('more', 'even one')}.")
        return
    share = "" if advice.expected_share == 1 else f", at {advice.expected_share:.0%} of the computed speed, as measured"
    plain(
        f"Advice: --max-num-seqs {advice.max_num_seqs} --max-model-len {question.context} ({by}{share}); "
        f"for {question.people} people at once {advice.machines} of it."
    )
    if advice.wait_s:
        plain(f"On one of it the last of them waits {_minutes(advice.wait_s)} for a turn ({FORMULAS['wait_s']}).")


def show_lines(model: str, question: Question, seats: int) -> None:
    """What to paste for each engine."""
    setup = Setup(
        model=model,
        weights=question.weights,
        kv_cache_dtype=question.kv_cache_dtype,
        max_num_seqs=seats,
        max_model_len=question.context,
        gpus=question.gpus,
        utilisation=question.utilisation,
    )
    lines = engine_lines(setup)
    for line in lines:
        plain(f"{line.engine + ':':<11}{line.command}")
    for note in dict.fromkeys(line.note for line in lines if line.note is not None):
        plain(f"For {', '.join(line.engine for line in lines if line.note == note)}: {NOTES[note]}")
