"""`sekisho verify`: flags for the six hypotheses of backends.bench, their verdicts as they come, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gateway.cli.bench_files import refuse_unwritable
from gateway.cli.console import CliError, err, note, plain

if TYPE_CHECKING:
    from backends.bench import BenchConfig, Report
    from backends.bench.hypotheses import Verdict
    from backends.bench.verification import Proof


class _Size(NamedTuple):
    """rounds: requests of each place; turns: of ours and the baseline."""

    rounds: int
    turns: int
    people: int
    input_tokens: int
    output_tokens: int


_FULL = _Size(4, 2, 50, 128, 128)
_QUICK = _Size(2, 1, 20, 64, 32)  # a laptop's CPU carries it
# Formats of the files that our own aliases bring; anything else is taken for bf16.
_FORMATS = {"smollm2-135m": "Q4_1"}


def verify(
    ours: Annotated[str, typer.Option(help="The engine or gateway: http(s)://host:port or unix:/path.")] = (
        "http://127.0.0.1:8000"
    ),
    baseline: Annotated[
        str | None, typer.Option(help="The server to compare with, such as Ollama. [default: none: 2 is not run]")
    ] = None,
    model: Annotated[str | None, typer.Option(help="[default: the first that ours lists]")] = None,
    baseline_model: Annotated[str | None, typer.Option(help="[default: the first that it lists]")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar=["SEKISHO_KEY", "OPENAI_API_KEY"], show_envvar=True, help="For ours.")
    ] = None,
    baseline_api_key: Annotated[str | None, typer.Option(help="For the baseline.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller, for a laptop: under ten minutes.")] = False,
    target: Annotated[float, typer.Option(min=0.1, help="Output tokens a second that each should have.")] = 20.0,
    people: Annotated[
        int | None, typer.Option(min=1, help="At the same moment, at the peak. [default: 50; quick: 20]")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The engine's --max-num-seqs; twice as many are sent.")] = 64,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, help="Length of a prompt. [default: 128; quick: 64]")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(min=2, help="Length of an answer. [default: 128; quick: 32]")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option(help="Answers of exactly the length; not every service knows it.")] = True,
    shape: Annotated[
        str | None, typer.Option(help="The model as `sekisho plan --list` names it. [default: as ours calls it]")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Their format, such as BF16, INT8, Q4_1. [default: our alias's, else BF16]")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(min=1, help="Bytes a second of the memory. [default: that of a copy on this machine]"),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 600.0,
    seed: Annotated[int, typer.Option(help="Of the prompts; each run takes the next one.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Also write the verdicts and all reports here, as JSON.")] = None,
) -> None:
    """Test the six hypotheses of a proof of concept. Ends with 1 where one of them fails."""
    from backends.bench import BenchConfig, validate
    from backends.bench.verification import Proof

    refuse_unwritable(output=output)
    size = _QUICK if quick else _FULL
    here = BenchConfig(
        url=ours,
        model=model,
        api_key=api_key,
        input_tokens=input_tokens or size.input_tokens,
        output_tokens=output_tokens or size.output_tokens,
        ignore_eos=ignore_eos,
        timeout_s=timeout,
        seed=seed,
    )
    there = replace(here, url=baseline, model=baseline_model, api_key=baseline_api_key) if baseline else None
    if faults := [fault for config in (here, there) if config for fault in validate(config)]:
        raise CliError("this cannot be measured:\n  " + "\n  ".join(faults), exit_code=2)
    bound = _bound(shape, weights, bandwidth, here.input_tokens + here.output_tokens / 2)
    proof = Proof(
        here,
        there,
        target_tok_s=target,
        people=people or size.people,
        limit=limit,
        rounds=size.rounds,
        turns=size.turns,
    )
    verdicts, reports = _tested(proof, bound)
    if output is not None:
        made = {"verdicts": [_as_dict(verdict) for verdict in verdicts], "runs": reports}
        output.write_text(json.dumps(made, indent=2) + "\n", "utf-8")
        note(f"Written to {output}")
    if any(verdict.state == "fails" for verdict in verdicts):
        raise typer.Exit(1)


def _tested(
    proof: Proof, bound: Callable[[str], Callable[[int], float] | None]
) -> tuple[list[Verdict], list[dict[str, object]]]:
    """The verdicts, each shown when it is known, and the report of each run."""
    from backends.bench.verification import verify

    verdicts: list[Verdict] = []
    reports: list[dict[str, object]] = []

    def run(title: str, config: BenchConfig) -> Report:
        with _told(title) as measure:
            report = measure(config)
        reports.append({"title": title, **report.to_dict()})
        return report

    for verdict in verify(proof, run, bound):
        plain(_shown(verdict))
        verdicts.append(verdict)
    return verdicts, reports


@contextmanager
def _told(title: str) -> Iterator[Callable[[BenchConfig], Report]]:
    from backends.bench import live_progress, run_bench

    note(f"measuring {title} ...")
    with live_progress() if err.is_terminal else nullcontext() as on_progress:
        yield lambda config: run_bench(config, on_progress)


def _shown(verdict: Verdict) -> str:
    line = f"{verdict.number}  {verdict.state:<8} {verdict.claim}\n   {'':<8} {verdict.said}"
    return f"{line}\n   {'':<8} -> {verdict.what_to_do}" if verdict.what_to_do else line


def _as_dict(verdict: Verdict) -> dict[str, object]:
    return asdict(verdict) | {"claim": verdict.claim, "what_to_do": verdict.what_to_do}


def _bound(
    shape: str | None, weights: str | None, bandwidth: float | None, context: float
) -> Callable[[str], Callable[[int], float] | None]:
    """The computed tok/s at a batch, of a model by the name that its server gives it; None where no shape is known."""
    from backends.bench.bound import computed_tok_s, copy_bandwidth
    from backends.capacity import SHAPES, WEIGHT_BITS

    if shape is not None and shape not in SHAPES:
        raise CliError(f"--shape is {shape!r}; expected one of {', '.join(SHAPES)}", exit_code=2)
    if weights is not None and weights not in WEIGHT_BITS:
        raise CliError(f"--weights is {weights!r}; expected one of {', '.join(WEIGHT_BITS)}", exit_code=2)

    def of(model: str) -> Callable[[int], float] | None:
        name = shape or _alias(model)
        if name is None:
            return None
        known = SHAPES[name]
        layers = weights or _FORMATS.get(name, "BF16")
        bytes_per_s = bandwidth or copy_bandwidth()
        note(f"computed for {name} in {layers}, {bytes_per_s / 1e9:.1f} GB/s")
        return lambda batch: computed_tok_s(batch, known, layers, context, bytes_per_s)

    return of


def _alias(model: str) -> str | None:
    """Our name of the model that a server calls `model`."""
    from backends.capacity import HUB_NAMES, SHAPES

    if model in SHAPES:
        return model
    return next((name for name, hub in HUB_NAMES.items() if hub == model), None)
