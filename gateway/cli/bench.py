"""`sekisho bench`: flags for the load generator of backends.bench, which does the work."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.bench_formats import quantization
from gateway.cli.bench_kernels import kernels
from gateway.cli.console import CliError, note, plain

app = typer.Typer(no_args_is_help=True, help="Measure a server, what formats cost, or the GPU's kernels.")


app.command()(quantization)
app.command()(kernels)


@app.callback()
def bench() -> None:
    """Measure a server, what formats cost, or the GPU's kernels."""


@app.command()
def serve(
    url: Annotated[str, typer.Option(help="http(s)://host:port or unix:/path.")] = "http://127.0.0.1:8080",
    endpoint: Annotated[str, typer.Option(help="chat or completions.")] = "chat",
    model: Annotated[str | None, typer.Option(help="[default: the first that the server lists]")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar=["SEKISHO_KEY", "OPENAI_API_KEY"], show_envvar=True, help="Sent as a bearer token."),
    ] = None,
    num_requests: Annotated[int, typer.Option(help="How many requests to send.")] = 100,
    input_tokens: Annotated[int, typer.Option(help="Length of a prompt, as the server counts it.")] = 128,
    output_tokens: Annotated[int, typer.Option(help="Length of an answer.")] = 128,
    shared_prefix_tokens: Annotated[int, typer.Option(help="Of the prompt, the same in every request.")] = 0,
    concurrency: Annotated[int | None, typer.Option(help="Most requests at once. [default: no limit]")] = None,
    request_rate: Annotated[float, typer.Option(help="Arrivals per second; inf: all at once.")] = math.inf,
    burstiness: Annotated[float, typer.Option(help="1: Poisson arrivals; below 1 burstier; inf: constant.")] = 1.0,
    num_warmups: Annotated[int, typer.Option(help="Requests before the clock starts.")] = 1,
    goodput: Annotated[
        list[str] | None, typer.Option(help="NAME:MILLISECONDS with a name of ttft, tpot, e2el; may be repeated.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option(help="Answers of exactly the length; not every service knows it.")] = True,
    seed: Annotated[int, typer.Option(help="Of prompts and arrivals.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 600.0,
    output: Annotated[Path | None, typer.Option(help="Also write the figures here, as JSON.")] = None,
) -> None:
    """Send prompts of fixed lengths to an OpenAI-compatible server; print latencies, throughput and goodput."""
    from backends.bench import BenchConfig, BenchError, live_progress, parse_goodput, run_bench, validate

    try:
        config = BenchConfig(
            url=url,
            endpoint=endpoint,
            model=model,
            api_key=api_key,
            num_requests=num_requests,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            shared_prefix_tokens=shared_prefix_tokens,
            concurrency=concurrency,
            request_rate=request_rate,
            burstiness=burstiness,
            num_warmups=num_warmups,
            goodput=parse_goodput(goodput or ()),
            ignore_eos=ignore_eos,
            seed=seed,
            timeout_s=timeout,
        )
        if faults := validate(config):
            raise CliError("this cannot be measured:\n  " + "\n  ".join(faults), exit_code=2)
        with live_progress() as on_progress:
            report = run_bench(config, on_progress)
    except BenchError as fault:
        raise CliError(str(fault)) from fault
    plain(report.to_text())
    if output is not None:
        output.write_text(json.dumps(report.to_dict(), indent=2) + "\n", "utf-8")
        note(f"Written to {output}")
