"""A plan as people ask for it: names of a model and a machine, or bare figures in their place. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from backends.capacity.machines import MACHINES
from backends.capacity.memory import GIB, kv_bytes_per_token, weight_bytes
from backends.capacity.plan import Hardware, Load, Model, Plan, make_plan
from backends.capacity.shapes import SHAPES
from backends.capacity.weights import (
    ModelShape,
    active_parameters,
    experts_read,
    experts_read_skewed,
    model_weight_bytes,
    step_weight_bytes,
)

Value = TypeVar("Value")

# Formats of the layers, and of the head.
WEIGHTS = {
    "bf16": ("BF16", "BF16"),
    "fp8": ("FP8_E4M3", "FP8_E4M3"),
    "int8": ("INT8", "INT8"),
    "int4": ("INT4_128", "INT8"),
}
KV_BYTES = {"bf16": 2.0, "fp8": 1.0}  # of an element


class BadQuestion(ValueError):
    """One value that cannot be planned with: its name, and what was expected in its place."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name} is {value!r}; expected {expected}")
        self.name, self.value, self.expected = name, value, expected


class Incomplete(ValueError):
    """What was asked leaves nothing that could be computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """model and hardware: names of SHAPES and MACHINES, or a shape of one's own; None: the bare figures count.

    params: in bf16; active_weight_bytes: read by a step; bandwidth: bytes/s; measured: batch > tok/s of the server.
    """

    model: str | ModelShape | None = None
    hardware: str | None = None
    gpus: int = 1
    weights: str = "bf16"
    kv_cache_dtype: str = "bf16"
    context: int = 4096
    output_tokens: int = 500
    shared_prefix: int = 0
    people: int = 50
    target: float = 20.0
    utilisation: float = 0.92
    measured: Mapping[int, float] = field(default_factory=dict)
    active_weight_bytes: float | None = None
    params: float | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    kv_dtype_bytes: float | None = None
    bandwidth: float | None = None
    vram_gib: float | None = None


def answer(question: Question) -> Plan:
    """Raises BadQuestion and Incomplete."""
    kv_bytes = question.kv_dtype_bytes or _chosen("kv_cache_dtype", question.kv_cache_dtype, KV_BYTES)
    made = make_plan(_model(question, kv_bytes), hardware_of(question), load_of(question), _kv_types(kv_bytes))
    if not made.rows and made.memory is None:
        raise Incomplete(
            "nothing can be said: a speed needs the bandwidth and the active weight bytes, memory needs the VRAM and "
            "the parameters; a known model with known hardware brings all of them"
        )
    return made


def hardware_of(question: Question) -> Hardware:
    name, gpus, utilisation = question.hardware, question.gpus, question.utilisation
    if name is None:
        if gpus > 1:
            _refuse("gpus", gpus, "1 without a hardware, which says how quickly GPUs talk to each other")
        memory = None if question.vram_gib is None else question.vram_gib * GIB
        return Hardware(memory_bytes=memory, bandwidth=question.bandwidth, utilisation=utilisation)
    known = _chosen("hardware", name, MACHINES)
    if gpus > 1 and not known.link:
        _refuse("gpus", gpus, f"1 with {name}, whose processors share one memory")
    return Hardware(
        memory_bytes=known.memory_gib * GIB,
        bandwidth=known.bandwidth,
        operations=known.operations,
        link=known.link,
        gpus=gpus,
        utilisation=utilisation,
    )


def load_of(question: Question) -> Load:
    return Load(
        context=question.context,
        output_tokens=question.output_tokens,
        people=question.people,
        target_tok_s=question.target,
        shared_prefix=question.shared_prefix,
        measured=question.measured,
    )


def read_measurement(text: str) -> tuple[int, float]:
    """BATCH:TOK_S, as it is typed."""
    batch, _, speed = text.partition(":")
    try:
        found = int(batch), float(speed)
    except ValueError:
        found = 0, 0.0
    if not (found[0] > 0 and 0 < found[1] < float("inf")):
        _refuse("measured", text, "BATCH:TOK_S, such as 16:463")
    return found


def _model(question: Question, kv_bytes: float) -> Model:
    model, formats = question.model, _chosen("weights", question.weights, WEIGHTS)
    if model is None:
        return _bare_model(question, kv_bytes)
    return _known_model(_chosen("model", model, SHAPES) if isinstance(model, str) else model, formats, kv_bytes)


def _known_model(shape: ModelShape, formats: tuple[str, str], kv_bytes: float) -> Model:
    layers, head = formats
    return Model(
        weights_read=lambda batch: step_weight_bytes(shape, batch, layers, head=head),
        kv_bytes_per_token=kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, kv_bytes),
        num_layers=shape.num_layers,
        weight_bytes=model_weight_bytes(shape, layers, head=head),
        active_parameters=active_parameters(shape),
        hidden_size=shape.hidden_size,
        experts_read=(lambda batch: experts_read(shape, batch)) if shape.num_experts else None,
        experts_read_skewed=(lambda batch: experts_read_skewed(shape, batch)) if shape.num_experts else None,
    )


def _bare_model(question: Question, kv_bytes: float) -> Model:
    layers, kv_heads, head_dim = question.layers, question.kv_heads, question.head_dim
    read, params = question.active_weight_bytes, question.params
    if layers is None or kv_heads is None or head_dim is None:
        raise Incomplete("a plan needs a model, or its layers, KV heads and head dim")
    return Model(
        weights_read=None if read is None else lambda batch: read,
        kv_bytes_per_token=kv_bytes_per_token(layers, kv_heads, head_dim, kv_bytes),
        num_layers=layers,
        weight_bytes=None if params is None else weight_bytes(params),
    )


def _kv_types(chosen: float) -> dict[str, float]:
    """What each type takes of the chosen one, which comes first."""
    return {name: size / chosen for name, size in sorted(KV_BYTES.items(), key=lambda one: one[1] != chosen)}


def _chosen(name: str, value: str, known: Mapping[str, Value]) -> Value:
    if value not in known:
        _refuse(name, value, f"one of {', '.join(known)}")
    return known[value]


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise BadQuestion(name, value, expected)
