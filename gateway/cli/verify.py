"""`sekisho verify`: flags for the six hypotheses of backends.bench, their verdicts as they come, and what to do."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import datadir, measuring
from gateway.cli.bench_files import refuse_unwritable, write_file
from gateway.cli.ceilings import ceiling_of, machine_rates
from gateway.cli.console import CliError, err, note, plain
from gateway.cli.targets import targets_of

if TYPE_CHECKING:
    from backends.bench import BenchConfig, Report
    from backends.bench.hypotheses import Verdict
    from backends.bench.verification import CeilingOf, Proof

_DOOR = "http://127.0.0.1:8080"
_SEATS = 64  # of an engine that was not told how many
_PEOPLE, _PEOPLE_QUICK = 50, 20


@dataclass(slots=True)
class _Trial:
    """One of ours: what is asked, where its engine is, what bounds it, and what came of it."""

    proof: Proof
    engine: str
    ceiling: CeilingOf
    verdicts: list[Verdict] = field(default_factory=list)
    runs: dict[str, Report] = field(default_factory=dict)  # by title


def verify(
    ours: Annotated[
        list[str] | None,
        typer.Option(help=f"Gateway or engine: http(s)://host:port or unix:/path; repeatable. [default: {_DOOR}]"),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The server to compare each with, such as Ollama. [default: none: 2 is not run]")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Of each --ours. [default: the first that it lists]")] = None,
    baseline_model: Annotated[str | None, typer.Option(help="[default: the first that it lists]")] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            envvar=["SEKISHO_KEY", "OPENAI_API_KEY"], show_envvar=True, help="Of each --ours, in their order."
        ),
    ] = None,
    baseline_api_key: Annotated[str | None, typer.Option(help="For the baseline.")] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="The engine behind each --ours: its memory and /metrics are looked at. "
            "[default: ours itself, or that of `sekisho up` here]"
        ),
    ] = None,
    data_dir: datadir.Option = None,
    quick: measuring.Quick = False,
    target: measuring.Target = 20.0,
    people: Annotated[
        int | None, typer.Option(min=1, help=f"At once, at the peak. [default: {_PEOPLE}; quick: {_PEOPLE_QUICK}]")
    ] = None,
    limit: Annotated[
        list[int] | None, typer.Option(min=1, help="Its --max-num-seqs; twice as many are sent. [default: 64]")
    ] = None,
    repeats: measuring.Repeats = None,
    input_tokens: measuring.InputTokens = None,
    output_tokens: measuring.OutputTokens = None,
    ignore_eos: measuring.IgnoreEos = True,
    shape: Annotated[
        str | None, typer.Option(help="The model as `sekisho plan --list` names it. [default: as ours calls it]")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Their format, such as BF16, INT8, Q4_1. [default: our alias's, else BF16]")
    ] = None,
    hardware: Annotated[str | None, typer.Option(help="The machine, as `sekisho plan --list` names it.")] = None,
    bandwidth: Annotated[
        float | None, typer.Option(min=1, help="Bytes a second of its memory. [default: of a copy on this machine]")
    ] = None,
    operations: Annotated[
        float | None, typer.Option(min=1, help="FLOP a second. [default: of float32 products on this machine]")
    ] = None,
    timeout: measuring.Timeout = 600.0,
    seed: measuring.Seed = 0,
    output: Annotated[Path | None, typer.Option(help="Also write the verdicts and all reports here, as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with the verdicts and plots here.")] = None,
) -> None:
    """Test the six hypotheses of a proof of concept. Ends with 1 where one of them fails."""
    from backends.bench import BenchConfig, validate
    from backends.bench.verification import Proof

    refuse_unwritable(output=output, html=html)
    size = measuring.QUICK if quick else measuring.FULL
    load = BenchConfig(
        input_tokens=input_tokens or size.input_tokens,
        output_tokens=output_tokens or size.output_tokens,
        ignore_eos=ignore_eos,
        timeout_s=timeout,
        seed=seed,
    )
    proof = Proof(
        load,
        replace(load, url=baseline, model=baseline_model, api_key=baseline_api_key) if baseline else None,
        target_tok_s=target,
        people=people or (_PEOPLE_QUICK if quick else _PEOPLE),
        rounds=size.rounds,
        repeats=repeats or size.repeats,
    )
    rates = machine_rates(hardware, bandwidth, operations)
    targets = targets_of(
        ours or [_DOOR],
        models=model or [],
        api_keys=api_key or [],
        engines=engine or [],
        limits=limit or [],
        default_limit=_SEATS,
        data_dir=datadir.chosen(data_dir, os.environ),
    )
    configs = [replace(load, url=one.url, model=one.model, api_key=one.api_key) for one in targets]
    asked = [*configs, proof.baseline] if proof.baseline else configs
    if faults := dict.fromkeys(fault for config in asked for fault in validate(config)):
        raise CliError("this cannot be measured:\n  " + "\n  ".join(faults), exit_code=2)
    trials = [
        _Trial(replace(proof, ours=config, limit=one.limit), one.engine, ceiling_of(one.engine, shape, weights, rates))
        for config, one in zip(configs, targets, strict=True)
    ]
    try:
        for trial in trials:
            if len(trials) > 1:
                plain(f"\n{trial.proof.ours.url}")
            _try(trial)
    finally:  # whoever interrupts keeps what is known
        _keep(trials, output, html)
    if any(verdict.state == "fails" for trial in trials for verdict in trial.verdicts):
        raise typer.Exit(1)


def _try(trial: _Trial) -> None:
    """Each verdict is shown when it is known."""
    from backends.bench import live_progress, run_bench
    from backends.bench.verification import Tools, verify
    from backends.bench.witness import witnessed

    def run(title: str, config: BenchConfig) -> Report:
        note(f"measuring {title} ...")
        with live_progress() if err.is_terminal else nullcontext() as on_progress:
            trial.runs[title] = run_bench(config, on_progress)
        return trial.runs[title]

    is_behind = trial.engine != trial.proof.ours.url
    tools = Tools(run, trial.ceiling, lambda: witnessed(trial.engine, metrics=is_behind))
    for verdict in verify(trial.proof, tools):
        plain(_shown(verdict))
        trial.verdicts.append(verdict)


def _shown(verdict: Verdict) -> str:
    margin = f"   {'':<8}"
    lines = [f"{verdict.number}  {verdict.state:<8} {verdict.claim}", f"{margin} {verdict.said}"]
    lines += [f"{margin} -> {verdict.what_to_do}"] if verdict.what_to_do else []
    lines += [f"{margin} the load generator was a bottleneck, {doubt}" for doubt in verdict.doubts]
    return "\n".join(lines)


def _keep(trials: list[_Trial], output: Path | None, html: Path | None) -> None:
    made = [
        {
            "url": trial.proof.ours.url,
            "baseline": trial.proof.baseline.url if trial.proof.baseline else None,
            "limit": trial.proof.limit,
            "date": next((report.date for report in trial.runs.values()), ""),
            "verdicts": [verdict.to_dict() for verdict in trial.verdicts],
        }
        for trial in trials
    ]
    if output is not None:
        told = [
            one | {"runs": [{"title": title, **report.to_dict()} for title, report in trial.runs.items()]}
            for one, trial in zip(made, trials, strict=True)
        ]
        write_file(output, json.dumps({"servers": told}, indent=2) + "\n")
    if html is not None:
        from backends.bench.pages import verification_page

        write_file(html, verification_page(made))
