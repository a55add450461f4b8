"""`sekisho bench`: flags for the load generator of backends.bench, which does the work."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.bench_files import refuse_unwritable, write_file, write_pages
from gateway.cli.bench_formats import quantization
from gateway.cli.bench_kernels import kernels
from gateway.cli.bench_report import report
from gateway.cli.bench_sweep import sweep
from gateway.cli.console import CliError, note, plain

if TYPE_CHECKING:
    from backends.bench import BenchConfig, Comparison, Report

app = typer.Typer(no_args_is_help=True, help="Measure a server, what formats cost, or the GPU's kernels.")


def _option(panel: str, help_text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **more)


_server = partial(_option, "Server")
_dataset = partial(_option, "Requests")
_arrival = partial(_option, "Arrivals")
_result = partial(_option, "Result")

app.command()(quantization)
app.command()(kernels)
app.command()(sweep)
app.command()(report)


@app.callback()
def bench() -> None:
    """Measure a server, what formats cost, or the GPU's kernels."""


@app.command()
def serve(
    url: Annotated[str, _server("http(s)://host:port or unix:/path.", envvar="SEKISHO_URL")] = "http://127.0.0.1:8080",
    endpoint: Annotated[str, _server("chat or completions.")] = "chat",
    model: Annotated[str | None, _server("Without it: the first that the server lists.")] = None,
    api_key: Annotated[
        str | None,
        _server("Sent as a bearer token.", envvar=["SEKISHO_KEY", "OPENAI_API_KEY"], show_envvar=True),
    ] = None,
    metrics_url: Annotated[
        str | None, _server("Where the server tells its metrics. No key is sent there. [default: its /metrics]")
    ] = None,
    baseline: Annotated[
        list[str] | None, _server("Send the same load here too, in turn, and print ratios; may be repeated.")
    ] = None,
    baseline_model: Annotated[list[str] | None, _server("Of each --baseline, in their order.")] = None,
    baseline_api_key: Annotated[list[str] | None, _server("Of each --baseline, in their order.")] = None,
    rounds: Annotated[int, _server("With --baseline: turns of each (A B A B).", min=1)] = 2,
    ignore_eos: Annotated[bool, _server("Answers of exactly the length; not every service knows it.")] = True,
    timeout: Annotated[float, _server("Seconds for one request.")] = 600.0,
    dataset_name: Annotated[str, _dataset("random, sharegpt-like, rag, multi-turn or custom.")] = "random",
    dataset_path: Annotated[str | None, _dataset("Of custom: a JSONL with prompt or messages in a line.")] = None,
    num_requests: Annotated[int, _dataset("How many requests to send.")] = 100,
    input_tokens: Annotated[
        int | None,
        _dataset(
            "Length of a prompt, as the server counts it. sharegpt-like: mean; multi-turn: of each turn. "
            "[default: 128; sharegpt-like: 212]"
        ),
    ] = None,
    output_tokens: Annotated[
        int | None, _dataset("Length of an answer. sharegpt-like: mean. [default: 128; sharegpt-like: 468]")
    ] = None,
    shared_prefix_tokens: Annotated[
        int, _dataset("Of the prompt, the same in every request. rag: of an instruction.")
    ] = 0,
    num_prefixes: Annotated[int, _dataset("Of rag: instructions.")] = 4,
    documents_per_prefix: Annotated[int, _dataset("Of rag: documents of an instruction.")] = 8,
    document_tokens: Annotated[int, _dataset("Of rag: of the prompt, after the instruction.")] = 0,
    num_turns: Annotated[int, _dataset("Of multi-turn: requests in a conversation.")] = 4,
    seed: Annotated[int, _dataset("Of prompts and arrivals.")] = 0,
    concurrency: Annotated[int | None, _arrival("Most conversations at once; without it no limit.")] = None,
    request_rate: Annotated[float, _arrival("Arrivals per second; inf: all at once.")] = math.inf,
    burstiness: Annotated[float, _arrival("1: Poisson arrivals; below 1 burstier; inf: constant.")] = 1.0,
    burst_size: Annotated[int, _arrival("So many arrive together; the rate stays.")] = 1,
    ramp_up_strategy: Annotated[str | None, _arrival("linear or exponential: a rate that moves.")] = None,
    ramp_up_start_rps: Annotated[float | None, _arrival("Arrivals per second at the ramp's start.")] = None,
    ramp_up_end_rps: Annotated[float | None, _arrival("Arrivals per second at the ramp's end.")] = None,
    replay_speed: Annotated[
        float | None, _arrival("Of custom: at the log's timestamps, so many times as fast; 1: as it was.")
    ] = None,
    num_warmups: Annotated[int, _arrival("Requests before the clock starts.")] = 1,
    goodput: Annotated[
        list[str] | None, _result("NAME:MILLISECONDS with a name of ttft, tpot, e2el; may be repeated.")
    ] = None,
    output: Annotated[Path | None, _result("Also write the figures here, as JSON.")] = None,
    save_detailed: Annotated[
        bool, _result("In --output also the times of each request, which `bench report` draws.", "--save-detailed")
    ] = False,
    html: Annotated[Path | None, _result("Also write a page with the figures and plots here.")] = None,
    csv: Annotated[
        Path | None,
        _result(
            "Also write one line a request here, the figures to NAME-summary.csv, the server's to NAME-server.csv."
        ),
    ] = None,
) -> None:
    """Send requests to an OpenAI-compatible server; print latencies, throughput and goodput, or ratios of several."""
    from backends.bench import BenchConfig, BenchError, Report, parse_goodput, usual_lengths

    refuse_unwritable(output=output, html=html, csv=csv)
    usual_input, usual_output = usual_lengths(dataset_name)
    try:
        config = BenchConfig(
            url=url,
            endpoint=endpoint,
            model=model,
            api_key=api_key,
            metrics_url=metrics_url,
            dataset_name=dataset_name,
            dataset_path=dataset_path,
            num_requests=num_requests,
            input_tokens=usual_input if input_tokens is None else input_tokens,
            output_tokens=usual_output if output_tokens is None else output_tokens,
            shared_prefix_tokens=shared_prefix_tokens,
            num_prefixes=num_prefixes,
            documents_per_prefix=documents_per_prefix,
            document_tokens=document_tokens,
            num_turns=num_turns,
            concurrency=concurrency,
            request_rate=request_rate,
            burstiness=burstiness,
            burst_size=burst_size,
            ramp_up_strategy=ramp_up_strategy,
            ramp_up_start_rps=ramp_up_start_rps,
            ramp_up_end_rps=ramp_up_end_rps,
            replay_speed=replay_speed,
            num_warmups=num_warmups,
            goodput=parse_goodput(goodput or ()),
            ignore_eos=ignore_eos,
            seed=seed,
            timeout_s=timeout,
        )
        others = _others(config, baseline or [], baseline_model or [], baseline_api_key or [])
        result = _measured([config, *others], rounds)
    except BenchError as fault:
        raise CliError(str(fault)) from fault
    plain(result.to_text())
    if output is not None:
        output.write_text(
            json.dumps(result.to_dict(detailed=save_detailed), indent=None if save_detailed else 2) + "\n", "utf-8"
        )
        note(f"Written to {output}")
    if isinstance(result, Report):
        write_pages({result.model: result.to_dict(detailed=True)}, html, csv)
    else:
        _write_comparison(result, html, csv)


def _write_comparison(comparison: Comparison, html: Path | None, csv: Path | None) -> None:
    """Raises CliError where it ended before its time: what was measured is kept by then."""
    from backends.bench.pages import comparison_page

    runs = {name: report.to_dict(detailed=True) for name, report in comparison.named().items()}
    if html is not None:
        write_file(html, comparison_page(comparison.to_dict(), runs))
    write_pages(runs, None, csv)
    if comparison.ended:
        raise CliError("the comparison ended before its time; what was measured is above")


def _others(
    config: BenchConfig, urls: Sequence[str], models: Sequence[str | None], keys: Sequence[str | None]
) -> list[BenchConfig]:
    """None is sent the key of the first."""
    for flag, values in (("--baseline-model", models), ("--baseline-api-key", keys)):
        if len(values) not in (0, len(urls)):
            raise CliError(f"{flag} is given {len(values)} times: expected once for each --baseline, or not", 2)
    named = zip(urls, models or [None] * len(urls), keys or [None] * len(urls), strict=True)
    return [replace(config, url=url, model=model, api_key=key, metrics_url=None) for url, model, key in named]


def _measured(targets: list[BenchConfig], rounds: int) -> Report | Comparison:
    from backends.bench import compare, live_progress, run_bench, validate

    if faults := dict.fromkeys(fault for target in targets for fault in validate(target)):
        raise CliError("this cannot be measured:\n  " + "\n  ".join(faults), exit_code=2)

    def run(target: BenchConfig) -> Report:
        with live_progress() as on_progress:
            made = run_bench(target, on_progress)
        if len(targets) > 1:
            note(f"{target.url}: {made.output_throughput:.0f} tok/s, {made.failed} failed")
        return made

    return compare(targets, rounds, run) if len(targets) > 1 else run(targets[0])
