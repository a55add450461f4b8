"""`sekisho run-batch`: a file of requests in, a file of results out, by the batches of a running gateway, or by a
model of its own where one is named.

What was begun is remembered beside the output: the same command, started again, goes on watching.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from gateway.cli import datadir
from gateway.cli.console import CliError, note, plain
from gateway.cli.office import GATEWAY, GatewayUrl
from gateway.cli.progress import lines_of

if TYPE_CHECKING:
    from gateway.cli.batch_client import BatchClient, Shown

_LOOK_SECONDS = 1.0


class Begun(msgspec.Struct, frozen=True):
    """What is remembered beside the output."""

    url: str
    batch: str
    input: str  # SHA-256


def run_batch(
    input_file: Annotated[
        Path, typer.Option("--input", "-i", help="JSON Lines, as the official batch API takes them.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where results go; errors go beside them.")],
    url: GatewayUrl = GATEWAY,
    api_key: Annotated[
        str, typer.Option(envvar=["SEKISHO_API_KEY", "SEKISHO_KEY"], help="Of whoever asks.", show_envvar=True)
    ] = "",
    window: Annotated[str, typer.Option(help="Time for all of it, 1h to 7d. What is left then expires.")] = "24h",
    model: Annotated[
        str | None, typer.Option(help="Answer with this model in this process instead: alias, path, hf: or pypi: name.")
    ] = None,
    data_dir: datadir.Option = None,
) -> None:
    """Run a file of requests as a batch. Interrupted and started again, it goes on."""
    if model is not None:
        _run_here(input_file, output, model, datadir.chosen(data_dir, os.environ))
        return
    if not api_key:
        raise CliError("give your key: --api-key, or SEKISHO_API_KEY. Or name a --model to run here.", exit_code=2)
    try:
        batch = asyncio.run(_run(input_file, output, url, api_key, window))
    except KeyboardInterrupt:
        note("The batch goes on at the gateway. The same command goes on watching.")
        raise typer.Exit(130) from None
    counts = batch.request_counts
    plain(f"{batch.id}: {batch.status}, {counts.completed} of {counts.total} completed.")
    if batch.errors is not None:
        faults = [f"line {fault.line}: {fault.message}" if fault.line else fault.message for fault in batch.errors.data]
        raise CliError("the batch failed:\n  " + "\n  ".join(faults))
    if counts.completed < counts.total:
        raise CliError(f"{counts.total - counts.completed} of {counts.total} lines failed; see {_errors(output)}.")


def _run_here(source: Path, output: Path, model: str, data_dir: Path) -> None:
    from gateway.cli import offline_batch
    from gateway.cli.engine import engine_faults, require_engine
    from gateway.cli.models import ensure_model

    require_engine()
    from native_engine.config import EngineConfig

    endpoint = _endpoint(_beginning(source))
    ensure_model(model, data_dir)
    try:
        with engine_faults():
            work = offline_batch.run(source, endpoint, output, _errors(output), EngineConfig(model=model), data_dir)
            done = asyncio.run(work)
    except KeyboardInterrupt:
        note("What is answered is written. The same command asks what is left.")
        raise typer.Exit(130) from None
    plain(f"{done.completed} of {done.total} completed.")
    if done.failed:
        raise CliError(f"{done.failed} of {done.total} lines failed; see {_errors(output)}.")


async def _run(input_file: Path, output: Path, url: str, api_key: str, window: str) -> Shown:
    """The batch at its end, its results written."""
    from gateway.cli.batch_client import BatchClient

    memory, data = output.with_name(f"{output.name}.batch"), _read(input_file)
    digest = hashlib.sha256(data).hexdigest()
    async with BatchClient(url, api_key) as client:
        begun = _remembered(memory)
        if begun is None:
            batch = await client.begin(input_file.name, data, _endpoint(data), window)
            memory.write_bytes(msgspec.json.encode(Begun(url, batch.id, digest)) + b"\n")
        elif (begun.url, begun.input) == (url, digest):
            note(f"Going on with {begun.batch}.")
            batch = await client.find(begun.batch)
        else:
            raise CliError(
                f"{memory} remembers a batch of another input or gateway that was not watched to its end. "
                "Give another --output, or remove that file to give that batch up.",
                exit_code=2,
            )
        batch = await _watched(client, batch)
        for file_id, path in ((batch.output_file_id, output), (batch.error_file_id, _errors(output))):
            if file_id is not None:
                await _write(client, file_id, path)
    memory.unlink(missing_ok=True)
    return batch


async def _watched(client: BatchClient, batch: Shown) -> Shown:
    with lines_of(batch.id) as tell:
        while True:
            counts = batch.request_counts
            tell(batch.status, counts.completed, counts.failed, counts.total)
            if batch.has_ended:
                return batch
            await asyncio.sleep(_LOOK_SECONDS)
            batch = await client.find(batch.id, patiently=True)


async def _write(client: BatchClient, file_id: str, path: Path) -> None:
    """All of it, or what was there before."""
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as file:
        await client.download(file_id, file)
    partial.replace(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}.", exit_code=2) from None


def _beginning(path: Path) -> bytes:
    """The first line that is not empty."""
    try:
        with path.open("rb") as file:
            return next((line for line in file if line.strip()), b"")
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}.", exit_code=2) from None


def _endpoint(data: bytes) -> str:
    """Of the first line; the gateway sees to it that the others have the same."""
    try:
        return str(msgspec.json.decode(data.lstrip().partition(b"\n")[0])["url"])
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
        raise CliError("the first line of the input is no request: expected custom_id, method, url and body.") from None


def _remembered(memory: Path) -> Begun | None:
    try:
        return msgspec.json.decode(memory.read_bytes(), type=Begun)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError):
        raise CliError(f"{memory} cannot be read. Remove it to begin anew.", exit_code=2) from None


def _errors(output: Path) -> Path:
    return output.with_name(f"{output.stem}.errors{output.suffix}")
