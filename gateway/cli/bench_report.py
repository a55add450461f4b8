"""`sekisho bench report`: results that were kept as JSON, drawn and compared without measuring anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.bench_files import refuse_unwritable, write_pages
from gateway.cli.console import CliError, plain


def report(
    results: Annotated[
        list[Path],
        typer.Argument(help="JSON of bench serve or sweep (--output), or of `vllm bench serve` (--save-result)."),
    ],
    html: Annotated[Path | None, typer.Option(help="Also write a page with the figures and plots here.")] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Also write one line a request here, the figures to NAME-summary.csv, the server's to NAME-server.csv."
        ),
    ] = None,
) -> None:
    """Print results that were kept side by side, with ratios of the first to the others; draw them."""
    from backends.bench import BenchError
    from backends.bench.results import compared, read_results

    refuse_unwritable(html=html, csv=csv)
    try:
        runs = read_results(results)
    except BenchError as fault:
        raise CliError(str(fault)) from fault
    plain(compared(runs))
    write_pages(runs, html, csv)
