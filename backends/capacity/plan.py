"""How many people a machine carries: every figure of a plan, by the formula that stands beside it in FORMULAS.

Pure arithmetic, and an upper bound: kernels reach a part of the bandwidth, which a measurement tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from backends.capacity.line import wait_seconds
from backends.capacity.memory import GIB, KIB, conversations_held, kv_budget_bytes
from backends.capacity.throughput import (
    batched_seconds,
    prefill_seconds,
    sequential_seconds,
    step_seconds,
)

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
HOP_SECONDS = 10e-6  # of a sum over GPUs, however small: launch and handshake, as NCCL takes on one machine

FORMULAS = {
    "kv_bytes_per_token": "2 (K and V) x layers x KV heads x head dim x bytes of an element",
    "conversations": "(memory x utilisation - weights) / KV bytes of a token / context",
    "step_seconds": "(weight bytes read + batch x KV bytes of a request) / bandwidth + sums over GPUs",
    "total_tok_s": "batch / step time",
    "per_user_tok_s": "1 / step time",
    "experts_read": "experts x (1 - (1 - chosen / experts) ^ batch): each token chooses its own at random",
    "experts_read_skewed": "sum over experts of 1 - exp(-t x batch / rank), t so that a batch of 1 has those chosen: "
    "popularity by Zipf's law",
    "sums": "2 sums a layer x (2 (n - 1) / n x batch x hidden x 2 bytes / link + 10 us), n GPUs",
    "prefill_seconds": "2 x active parameters x tokens / (operations a second x n GPUs); attention left out",
    "last_s": "people x the time of one prompt: they share the machine's operations",
    "weights_gib": "parameters x bits / 8, by format",
    "kv_budget_gib": "memory x utilisation - weights",
    "machines": "people / seats, rounded up",
    "measured_share": "measured tok/s / computed tok/s; the least of them is what the advice counts on",
    "sequential_s": "people x output tokens x step time of one",
    "batched_s": "output tokens x step time of all together",
    "wait_s": "place in line x output tokens x step time / max-num-seqs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the arithmetic needs of a model. weights_read: bytes of weights that a step of so many sequences reads.

    weight_bytes, active_parameters and hidden_size may be unknown: then nothing is said of memory, prefill and sums.
    """

    weights_read: Callable[[int], float] | None
    kv_bytes_per_token: float
    num_layers: int
    weight_bytes: float | None = None
    active_parameters: float | None = None
    hidden_size: int | None = None
    experts_read: Callable[[int], float] | None = None
    experts_read_skewed: Callable[[int], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """`gpus` of a kind that share the model. memory_bytes and bandwidth (bytes/s) are one's; None: not asked about."""

    memory_bytes: float | None = None
    bandwidth: float | None = None
    operations: float | None = None
    link: float = 0.0
    gpus: int = 1
    utilisation: float = 0.92


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """context: tokens of a conversation, its answer included; shared_prefix: of its prompt, the same for all."""

    context: int
    output_tokens: int = 500
    people: int = 50
    target_tok_s: float = 20.0
    shared_prefix: int = 0
    measured: Mapping[int, float] = field(default_factory=dict)  # batch > tok/s of the whole server


@dataclass(frozen=True, slots=True)
class Row:
    """sum_seconds: the part of a step that GPUs take to add up. experts_read: of a layer, what the speed is computed
    with; experts_read_skewed: where some are liked better, fewer are read. measured_share: of the computed speed."""

    batch: int
    total_tok_s: float
    per_user_tok_s: float
    meets_target: bool
    step_seconds: float
    sum_seconds: float
    weight_bytes: float
    kv_bytes: float
    experts_read: float | None
    experts_read_skewed: float | None
    measured_share: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """conversations: by the type of the KV cache."""

    weights_gib: float
    kv_kib_per_token: float
    kv_budget_gib: float
    conversations: dict[str, float]


@dataclass(frozen=True, slots=True)
class Finish:
    """When the last of `people` has the whole answer."""

    people: int
    sequential_s: float
    batched_s: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Prefill:
    """Seconds until a prompt is computed, alone on the machine: then its first token comes. shared_s: where the common
    beginning is cached. last_s, last_shared_s: the same of the last, where all people send at once."""

    prompt_tokens: int
    seconds: float
    shared_s: float
    last_s: float
    last_shared_s: float


@dataclass(frozen=True, slots=True)
class Advice:
    """max_num_seqs: 0 where one person alone is too slow, or finds no room. machines: None then.

    per_user_tok_s: of each where so many are served, or one alone. wait_s: until the last of all people, who ask at
    once, has a turn on one machine; None where nobody has one.
    """

    max_num_seqs: int
    limited_by: str
    machines: int | None
    expected_share: float
    per_user_tok_s: float
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    rows: list[Row]
    memory: Memory | None
    finish: Finish | None
    prefill: Prefill | None
    advice: Advice | None
    formulas: dict[str, str]


def make_plan(
    model: Model, hardware: Hardware, load: Load, kv_types: Mapping[str, float], batches: Sequence[int] = BATCHES
) -> Plan:
    """kv_types: the names of KV cache types to tell of, and what they take of `model.kv_bytes_per_token`; the first is
    the one that is planned with."""
    rows = [_row(batch, model, hardware, load) for batch in batches] if _has_speed(model, hardware) else []
    memory = _memory(model, hardware, load, kv_types)
    return Plan(
        rows=rows,
        memory=memory,
        finish=_finish(model, hardware, load) if rows else None,
        prefill=_prefill(model, hardware, load),
        advice=_advice(model, hardware, load, memory) if rows else None,
        formulas=FORMULAS,
    )


def step_time(batch: int, model: Model, hardware: Hardware, load: Load) -> float:
    """Seconds of a decode step of `batch` conversations in the middle of the machine's memory."""
    if model.weights_read is None or hardware.bandwidth is None:
        raise ValueError("a step's time needs what it reads and the bandwidth")
    reading = step_seconds(
        batch,
        active_weight_bytes=model.weights_read(batch),
        kv_bytes_per_request=model.kv_bytes_per_token * load.context,
        bandwidth_bytes_per_s=hardware.bandwidth * hardware.gpus,
    )
    return reading + sum_seconds(batch, model, hardware)


def sum_seconds(batch: int, model: Model, hardware: Hardware) -> float:
    """What tensor parallel adds to a step: two ring all-reduces a layer (Patarasuk and Yuan 2009)."""
    if hardware.gpus == 1 or model.hidden_size is None:
        return 0.0
    moved = 2 * (hardware.gpus - 1) / hardware.gpus * batch * model.hidden_size * 2
    return 2 * model.num_layers * (moved / hardware.link + HOP_SECONDS)


def _has_speed(model: Model, hardware: Hardware) -> bool:
    return model.weights_read is not None and hardware.bandwidth is not None


def _row(batch: int, model: Model, hardware: Hardware, load: Load) -> Row:
    seconds = step_time(batch, model, hardware, load)
    total, measured = batch / seconds, load.measured.get(batch)
    return Row(
        batch=batch,
        total_tok_s=total,
        per_user_tok_s=1 / seconds,
        meets_target=1 / seconds >= load.target_tok_s,
        step_seconds=seconds,
        sum_seconds=sum_seconds(batch, model, hardware),
        weight_bytes=model.weights_read(batch) if model.weights_read else 0.0,
        kv_bytes=batch * model.kv_bytes_per_token * load.context,
        experts_read=model.experts_read(batch) if model.experts_read else None,
        experts_read_skewed=model.experts_read_skewed(batch) if model.experts_read_skewed else None,
        measured_share=None if measured is None else measured / total,
    )


def _memory(model: Model, hardware: Hardware, load: Load, kv_types: Mapping[str, float]) -> Memory | None:
    if model.weight_bytes is None or hardware.memory_bytes is None:
        return None
    budget = kv_budget_bytes(hardware.memory_bytes * hardware.gpus, hardware.utilisation, model.weight_bytes)
    per_token = model.kv_bytes_per_token
    return Memory(
        weights_gib=model.weight_bytes / GIB,
        kv_kib_per_token=per_token / KIB,
        kv_budget_gib=budget / GIB,
        conversations={
            name: conversations_held(budget, per_token * share, load.context) for name, share in kv_types.items()
        },
    )


def _finish(model: Model, hardware: Hardware, load: Load) -> Finish:
    alone, together = (step_time(batch, model, hardware, load) for batch in (1, load.people))
    sequential = sequential_seconds(load.people, load.output_tokens, alone)
    batched = batched_seconds(load.output_tokens, together)
    return Finish(load.people, sequential, batched, sequential / batched)


def _prefill(model: Model, hardware: Hardware, load: Load) -> Prefill | None:
    if model.active_parameters is None or hardware.operations is None:
        return None
    prompt = max(load.context - load.output_tokens, 1)
    rate = hardware.operations * hardware.gpus
    whole, rest = (
        prefill_seconds(tokens, active_parameters=model.active_parameters, operations_per_s=rate)
        for tokens in (prompt, max(prompt - load.shared_prefix, 1))
    )
    return Prefill(prompt, whole, rest, load.people * whole, load.people * rest)


def _advice(model: Model, hardware: Hardware, load: Load, memory: Memory | None) -> Advice:
    """By what was measured where something was: the least share of the computed speed that any measurement reached.

    One above the bound was of something else, and is not counted on.
    """
    shares = (speed / _total(batch, model, hardware, load) for batch, speed in load.measured.items())
    share = min([1.0, *shares])
    quick = _largest(lambda batch: share / step_time(batch, model, hardware, load) >= load.target_tok_s)
    held = math.inf if memory is None else math.floor(next(iter(memory.conversations.values())))
    seats = int(min(quick, held))
    limited_by = "speed" if quick <= held else "memory"
    step = step_time(max(seats, 1), model, hardware, load) / share
    if not seats:
        return Advice(0, limited_by, None, share, 1 / step, None)
    wait = wait_seconds(max(0, load.people - seats), batched_seconds(load.output_tokens, step), seats)
    return Advice(seats, limited_by, math.ceil(load.people / seats), share, 1 / step, wait)


def _total(batch: int, model: Model, hardware: Hardware, load: Load) -> float:
    return batch / step_time(batch, model, hardware, load)


def _largest(holds: Callable[[int], bool], most: int = 1 << 16) -> int:
    """The largest number up to `most` that holds, where all smaller ones do; 0 where 1 does not."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
