"""`sekisho plan`: how many people a machine carries, from the shapes of a model and a machine, or from bare figures."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.console import CliError, plain

if TYPE_CHECKING:
    from backends.capacity import ModelShape


def plan(
    model: Annotated[
        str | None, typer.Option(help="A name of --list, hf:org/name, or a folder with a config.json.")
    ] = None,
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
    from backends.capacity.question import BadQuestion, Incomplete, Question, answer, read_measurement
    from gateway.cli import plan_shown

    if show_list:
        plan_shown.show_lists()
        return
    try:
        question = Question(
            model=None if model is None else _shape(model),
            hardware=hardware,
            gpus=gpus,
            weights=weights,
            kv_cache_dtype=kv_cache_dtype,
            context=context,
            output_tokens=output_tokens,
            shared_prefix=shared_prefix,
            people=people,
            target=target,
            utilisation=utilisation,
            measured=dict(map(read_measurement, measured or [])),
            active_weight_bytes=active_weight_bytes,
            params=params,
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            kv_dtype_bytes=kv_dtype_bytes,
            bandwidth=bandwidth,
            vram_gib=vram_gib,
        )
        made = answer(question)
    except BadQuestion as fault:
        flag = fault.name.replace("_", "-")
        raise CliError(f"--{flag} is {fault.value!r}; expected {fault.expected}", exit_code=2) from fault
    except Incomplete as fault:
        raise CliError(f"{fault}; --list shows names", exit_code=2) from fault
    if as_json:
        plain(json.dumps(dataclasses.asdict(made), indent=2))
        return
    plan_shown.show(made, question)
    if model is not None and made.advice is not None and made.advice.max_num_seqs:
        plan_shown.show_lines(model, question, made.advice.max_num_seqs)


def _shape(name: str) -> str | ModelShape:
    """A name of the list stays one; anything else is looked at."""
    from backends.capacity import SHAPES
    from backends.capacity.question import BadQuestion

    if name in SHAPES:
        return name
    if name.startswith("hf:"):
        return _hub_shape(name)
    if (Path(name) / "config.json").exists():
        return _folder_shape(Path(name))
    raise BadQuestion("model", name, f"hf:org/name, a folder with a config.json, or one of {', '.join(SHAPES)}")


def _hub_shape(name: str) -> ModelShape:
    from native_engine.loading.catalogue import HubModel, parse_name
    from native_engine.loading.errors import ModelError
    from native_engine.loading.fetch import fetch_hub_config

    try:
        _, origin = parse_name(name)
        with tempfile.TemporaryDirectory(prefix="sekisho-plan-") as folder:
            if isinstance(origin, HubModel):
                fetch_hub_config(origin, Path(folder))
            return _folder_shape(Path(folder))
    except ModelError as fault:
        raise CliError(str(fault)) from fault


def _folder_shape(folder: Path) -> ModelShape:
    from native_engine.loading.errors import ModelError
    from native_engine.loading.model_config import config_from_folder
    from native_engine.work import shape_of

    try:
        return shape_of(config_from_folder(folder))
    except ModelError as fault:
        raise CliError(str(fault)) from fault
