"""`sekisho check`: whether a gateway could start with these settings, told before one does. Asks no server unnamed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from gateway.cli.against import Change, changes
from gateway.cli.checking import examined
from gateway.cli.console import note, plain
from gateway.cli.findings import Finding, failed
from gateway.cli.office import Json, show_json


class Report(msgspec.Struct, frozen=True):
    """changes: None where no gateway was named."""

    usable: bool
    findings: Sequence[Finding]
    changes: Sequence[Change] | None = None


def check(
    config: Annotated[
        Path | None, typer.Argument(envvar="SEKISHO_CONFIG", help="Settings as YAML. [default: variables alone]")
    ] = None,
    policies: Annotated[
        list[Path] | None, typer.Option(help="A file for `quotas apply`, checked with them. Repeatable.")
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="URL", help="A gateway that runs: what would change there, variables here included.")
    ] = "",
    api_key: Annotated[str, typer.Option(envvar="SEKISHO_KEY", help="An auditor's or administrator's.")] = "",
    as_json: Json = False,
) -> None:
    """Whether settings can be used, variables SEKISHO_* included: what `serve` checks at its start. 1 if not."""
    settings, findings = examined(config, os.environ)
    findings += [finding for file in policies or () for finding in _policies(file)]
    changed = changes(settings, against, api_key) if settings is not None and against else None
    report = Report(not failed(findings), findings, changed)
    if as_json:
        show_json(report)
    else:
        _show(report, config)
    raise typer.Exit(int(not report.usable))


def _policies(file: Path) -> Iterator[Finding]:
    from gateway.quotas import changes

    try:
        faults = changes.read(file.read_text("utf-8"))[1]
    except (OSError, UnicodeDecodeError) as error:
        faults = [f"cannot be read ({getattr(error, 'strerror', 'it is not UTF-8')})"]
    yield from (Finding(str(file), "fail", fault) for fault in faults)


def _show(report: Report, config: Path | None) -> None:
    for finding in report.findings:
        plain(f"{'fault' if finding.verdict == 'fail' else 'warning'}: {finding}")
    for change in report.changes or ():
        plain(f"change: {change}")
    what = str(config) if config else "What the environment says"
    note(f"{what} {'can be used' if report.usable else 'cannot be used'}.")
