"""`sekisho doctor`: looks at everything that a gateway on this machine needs, and tells of each how it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from gateway.cli import datadir
from gateway.cli.checking import examined
from gateway.cli.console import out
from gateway.cli.doctor import engines, folders, gpu, machine, ports, provider, redis_server
from gateway.cli.findings import Finding, failed
from gateway.cli.office import Json, cell, show_json
from gateway.cli.serve import Config

if TYPE_CHECKING:
    from gateway.settings import Settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    config: Config = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="[default: 8080]")] = None,
    host: Annotated[str | None, typer.Option(help="[default: 127.0.0.1]")] = None,
    data_dir: datadir.Option = None,
    as_json: Json = False,
) -> None:
    """Look at this machine with the settings of `serve`: ports, files, Redis, providers, engines, GPU, limits. 1 where
    something fails."""
    settings, found = examined(config, os.environ, host=host, port=port, data_dir=data_dir)
    findings = [*found, *_examine(settings, data_dir)]
    if as_json:
        show_json(findings)
    else:
        _show(findings)
    raise typer.Exit(int(failed(findings)))


def _examine(settings: Settings | None, data_dir: Path | None) -> Iterator[Finding]:
    """Without settings that can be used, only what needs none."""
    folder = datadir.chosen(data_dir, os.environ)
    if settings is not None and settings.source("data_dir") != "default":
        folder = settings.data_dir
    for check in (machine.python, gpu.engine, machine.memory, lambda: folders.examine(folder)):
        yield from check()
    if settings is None:
        return
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: machine.open_files(settings),
        lambda: ports.examine(settings),
        lambda: redis_server.examine(settings, folder),
        lambda: provider.examine(settings),
        lambda: engines.examine(settings),
    )
    for look in checks:
        yield from look()


def _show(findings: list[Finding]) -> None:
    table = Table("", "what")
    table.add_column("found", overflow="fold")
    table.add_column("how to mend it", overflow="fold")
    for finding in findings:
        verdict = f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]"
        texts = (
            (finding.place and f"{finding.place}: {finding.subject}") or finding.subject,
            finding.found,
            finding.remedy,
        )
        table.add_row(verdict, *(cell("", text) for text in texts))
    out.print(table)
