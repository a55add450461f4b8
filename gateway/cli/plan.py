"""`sekisho plan`: how many people a machine carries, from the shapes of a model and a machine, or from bare figures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from gateway.cli.console import CliError, plain

if TYPE_CHECKING:
    from backends.capacity import ModelShape
    from backends.capacity.plan import Hardware, Model

Value = TypeVar("Value")

# Of the layers, and of the head.
_FORMATS = {
    "bf16": ("BF16", "BF16"),
    "fp8": ("FP8_E4M3", "FP8_E4M3"),
    "int8": ("INT8", "INT8"),
    "int4": ("INT4_128", "INT8"),
}
_KV_BYTES = {"bf16": 2.0, "fp8": 1.0}


def plan(
    model: Annotated[str | None, typer.Option(help="A name of --list, or a folder with a config.json.")] = None,
    hardware: Annotated[str | None, typer.Option(help="A name of --list.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that share the model (tensor parallel).")] = 1,
    weights: Annotated[str, typer.Option(help="bf16, fp8, int8 or int4 (with the head in int8).")] = "bf16",
    kv_cache_dtype: Annotated[str, typer.Option(help="bf16 or fp8.")] = "bf16",
    context: Annotated[int, typer.Option(min=1, help="Tokens of a conversation, its answer included.")] = 4096,
    output_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 500,
    shared_prefix: Annotated[int, typer.Option(min=0, help="Tokens that all prompts begin with.")] = 0,
    people: Annotated[int, typer.Option(min=1, help="At the same moment, at the peak.")] = 50,
    target: Annotated[float, typer.Option(min=0.1, help="Output tokens a second that each should have.")] = 20.0,
    utilisation: Annotated[float, typer.Option(min=0.01, max=1.0, help="Share of the memory that is used.")] = 0.92,
    measured: Annotated[list[str] | None, typer.Option(help="BATCH:TOK_S of the server; may be repeated.")] = None,
    active_weight_bytes: Annotated[float | None, typer.Option(help="In the place of a model: read a step.")] = None,
    params: Annotated[float | None, typer.Option(help="In the place of a model: its parameters, in bf16.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="In the place of a model.")] = None,
    kv_heads: Annotated[int | None, typer.Option(min=1, help="In the place of a model.")] = None,
    head_dim: Annotated[int | None, typer.Option(min=1, help="In the place of a model.")] = None,
    kv_dtype_bytes: Annotated[float | None, typer.Option(help="In the place of --kv-cache-dtype.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="In the place of a machine: bytes a second.")] = None,
    vram_gib: Annotated[float | None, typer.Option(help="In the place of a machine: its memory.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Show the models and machines that are known.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say how many people a machine carries, and how fast, before it is bought. All figures are upper bounds."""
    from backends.capacity.plan import Load, make_plan
    from gateway.cli import plan_shown

    if show_list:
        plan_shown.show_lists()
        return
    kv_bytes = kv_dtype_bytes or _chosen("kv-cache-dtype", kv_cache_dtype, _KV_BYTES)
    if model is not None:
        asked = _known_model(_shape(model), _chosen("weights", weights, _FORMATS), kv_bytes)
    else:
        asked = _bare_model(layers, kv_heads, head_dim, active_weight_bytes, params, kv_bytes)
    machine = _machine(hardware, gpus, bandwidth, vram_gib, utilisation)
    load = Load(
        context=context,
        output_tokens=output_tokens,
        people=people,
        target_tok_s=target,
        shared_prefix=shared_prefix,
        measured=dict(map(_measurement, measured or [])),
    )
    made = make_plan(asked, machine, load, _kv_types(kv_bytes))
    if not made.rows and made.memory is None:
        raise CliError(
            "nothing can be said: a speed needs --bandwidth and --active-weight-bytes, memory needs --vram-gib and "
            "--params; --model with --hardware brings all of them",
            exit_code=2,
        )
    if as_json:
        plain(json.dumps(dataclasses.asdict(made), indent=2))
        return
    plan_shown.show(made, load)
    if model is not None and made.advice is not None and made.advice.max_num_seqs:
        plan_shown.show_flags(model, weights, kv_cache_dtype, load, machine, made.advice.max_num_seqs)


def _kv_types(chosen: float) -> dict[str, float]:
    """What each type takes of the chosen one, which comes first."""
    return {name: size / chosen for name, size in sorted(_KV_BYTES.items(), key=lambda one: one[1] != chosen)}


def _shape(name: str) -> ModelShape:
    from backends.capacity import SHAPES

    folder = Path(name)
    if name in SHAPES or not (folder / "config.json").exists():
        return _chosen("model", name, SHAPES)
    return _shape_of(folder)


def _shape_of(folder: Path) -> ModelShape:
    from native_engine.loading.errors import ModelError
    from native_engine.loading.model_config import config_from_folder
    from native_engine.work import shape_of

    try:
        return shape_of(config_from_folder(folder))
    except ModelError as fault:
        raise CliError(str(fault)) from fault


def _known_model(shape: ModelShape, formats: tuple[str, str], kv_bytes: float) -> Model:
    from backends.capacity import (
        active_parameters,
        experts_read,
        kv_bytes_per_token,
        model_weight_bytes,
        step_weight_bytes,
    )
    from backends.capacity.plan import Model

    layers, head = formats
    return Model(
        weights_read=lambda batch: step_weight_bytes(shape, batch, layers, head=head),
        kv_bytes_per_token=kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, kv_bytes),
        num_layers=shape.num_layers,
        weight_bytes=model_weight_bytes(shape, layers, head=head),
        active_parameters=active_parameters(shape),
        hidden_size=shape.hidden_size,
        experts_read=(lambda batch: experts_read(shape, batch)) if shape.num_experts else None,
    )


def _bare_model(
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    active_weight_bytes: float | None,
    params: float | None,
    kv_bytes: float,
) -> Model:
    from backends.capacity import kv_bytes_per_token, weight_bytes
    from backends.capacity.plan import Model

    if layers is None or kv_heads is None or head_dim is None:
        raise CliError("a plan needs --model, or --layers, --kv-heads and --head-dim; --list shows models", exit_code=2)
    return Model(
        weights_read=None if active_weight_bytes is None else lambda batch: active_weight_bytes,
        kv_bytes_per_token=kv_bytes_per_token(layers, kv_heads, head_dim, kv_bytes),
        num_layers=layers,
        weight_bytes=None if params is None else weight_bytes(params),
    )


def _machine(
    name: str | None, gpus: int, bandwidth: float | None, vram_gib: float | None, utilisation: float
) -> Hardware:
    from backends.capacity import GIB, MACHINES
    from backends.capacity.plan import Hardware

    if name is None:
        if gpus > 1:
            _refuse("gpus", gpus, "1 without --hardware, which says how quickly GPUs talk to each other")
        memory = None if vram_gib is None else vram_gib * GIB
        return Hardware(memory_bytes=memory, bandwidth=bandwidth, utilisation=utilisation)
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


def _measurement(text: str) -> tuple[int, float]:
    batch, _, speed = text.partition(":")
    try:
        found = int(batch), float(speed)
    except ValueError:
        found = 0, 0.0
    if min(found) <= 0:
        _refuse("measured", text, "BATCH:TOK_S, such as 16:463")
    return found


def _chosen(flag: str, value: str, known: dict[str, Value]) -> Value:
    if value not in known:
        _refuse(flag, value, f"one of {', '.join(known)}")
    return known[value]


def _refuse(flag: str, value: object, expected: str) -> NoReturn:
    raise CliError(f"--{flag} is {value!r}; expected {expected}", exit_code=2)
