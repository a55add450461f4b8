"""`sekisho bench sweep`: flags for the search of backends.bench.sweep, its points as they come, and its advice."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import measuring
from gateway.cli.bench_files import refuse_unwritable, write_file, write_pages
from gateway.cli.console import CliError, err, plain

if TYPE_CHECKING:
    from backends.bench import BenchConfig, Report
    from backends.bench.sweep import Point, Sweep, Target

_HEAD = f"{'at once':>8}{'tok/s':>9}{'each p95':>10}{'TTFT p95 ms':>13}{'decoding':>10}{'failed':>8}  target"


_MOST, _MOST_QUICK = 256, 32


def sweep(
    url: Annotated[
        str, typer.Option(envvar="SEKISHO_URL", help="http(s)://host:port or unix:/path.")
    ] = "http://127.0.0.1:8080",
    endpoint: Annotated[str, typer.Option(help="chat or completions.")] = "chat",
    model: Annotated[str | None, typer.Option(help="[default: the first that the server lists]")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar=["SEKISHO_KEY", "OPENAI_API_KEY"], show_envvar=True, help="Sent as a bearer token."),
    ] = None,
    target: measuring.Target = 20.0,
    ttft_p95: Annotated[
        float | None, typer.Option(min=1, help="Also: milliseconds until the first token, for 95 %. [default: any]")
    ] = None,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, help="The search ends here. [default: 256; quick: 32]")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Requests that each of them sends in turn. [default: 4; quick: 2]")
    ] = None,
    repeats: measuring.Repeats = None,
    input_tokens: measuring.InputTokens = None,
    output_tokens: measuring.OutputTokens = None,
    shared_prefix_tokens: Annotated[int, typer.Option(min=0, help="Of the prompt, the same in every request.")] = 0,
    ignore_eos: measuring.IgnoreEos = True,
    quick: measuring.Quick = False,
    seed: measuring.Seed = 0,
    timeout: measuring.Timeout = 600.0,
    output: Annotated[Path | None, typer.Option(help="Also write points, runs and advice here, as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page that draws each point's median run.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Also write one line a request here, and the figures to NAME-summary.csv.")
    ] = None,
) -> None:
    """Find how many at once still get the target speed, and what to start the engine with (--max-num-seqs)."""
    from backends.bench import BenchConfig, BenchError, validate
    from backends.bench.sweep import Target, advice

    refuse_unwritable(output=output, html=html, csv=csv)
    size = measuring.QUICK if quick else measuring.FULL
    config = BenchConfig(
        url=url,
        endpoint=endpoint,
        model=model,
        api_key=api_key,
        num_requests=rounds or size.rounds,  # of each place
        input_tokens=input_tokens or size.input_tokens,
        output_tokens=output_tokens or size.output_tokens,
        shared_prefix_tokens=shared_prefix_tokens,
        ignore_eos=ignore_eos,
        seed=seed,
        timeout_s=timeout,
        goodput={"tpot": 1000 / target} | ({} if ttft_p95 is None else {"ttft": ttft_p95}),
    )
    if faults := validate(config):
        raise CliError("this cannot be measured:\n  " + "\n  ".join(faults), exit_code=2)
    wanted = Target(target, ttft_p95)
    try:
        found, runs = _searched(
            config, wanted, max_concurrency or (_MOST_QUICK if quick else _MOST), repeats or size.repeats
        )
    except BenchError as fault:
        raise CliError(str(fault)) from fault
    said, doubts = advice(found, wanted), _doubts(runs)
    plain("\n".join([said, *doubts]))
    told = found.to_dict(wanted) | {"advice": said, "doubts": doubts}
    if output is not None:
        each = {"runs": [report.to_dict() for reports in runs.values() for report in reports]}
        write_file(output, json.dumps(told | each, indent=2) + "\n")
    middle = _middle_ones(runs)
    if html is not None:
        from backends.bench.pages import sweep_page

        write_file(html, sweep_page(told, middle))
    write_pages(middle, None, csv)


def _doubts(runs: dict[int, list[Report]]) -> list[str]:
    """Where the load generator was a bottleneck, so that more than is said here may be carried."""
    return [
        f"The load generator was a bottleneck at {number} at once: {'; '.join(reasons)}. The server may be better."
        for number, reports in sorted(runs.items())
        if (reasons := next((report.strain.bottlenecks for report in reports if report.strain.bottlenecks), None))
    ]


def _searched(config: BenchConfig, target: Target, limit: int, repeats: int) -> tuple[Sweep, dict[int, list[Report]]]:
    """The sweep, and by the number at once, as they were measured, the reports of its runs."""
    from backends.bench import live_progress, run_bench
    from backends.bench.sweep import point_of, search

    seeds = count(config.seed)  # a prompt that was sent before would be found in a prefix cache
    runs: dict[int, list[Report]] = {}

    def measured(concurrency: int) -> Point:
        reports = []
        for _ in range(repeats):
            number = concurrency * config.num_requests
            one = replace(config, concurrency=concurrency, num_requests=number, seed=next(seeds))
            with live_progress() if err.is_terminal else nullcontext() as on_progress:
                reports.append(run_bench(one, on_progress))
        runs[concurrency] = reports
        point = point_of(concurrency, reports, target)
        plain(_line(point))
        return point

    plain(_HEAD)
    return search(measured, limit), runs


def _middle_ones(runs: dict[int, list[Report]]) -> dict[str, dict[str, object]]:
    """Of each number at once, in ascending order, the run of median throughput."""
    middle = {
        number: sorted(reports, key=lambda report: report.output_throughput)[len(reports) // 2]
        for number, reports in sorted(runs.items())
    }
    return {f"{number} at once": report.to_dict(detailed=True) for number, report in middle.items()}


def _line(point: Point) -> str:
    return (
        f"{point.concurrency:>8}{point.output_tok_s:>9.1f}{point.per_person_tok_s:>10.1f}{point.ttft_p95_ms:>13.0f}"
        f"{point.decoding:>10.1f}{point.failed:>8}  {point.missed or 'met'}"
    )
