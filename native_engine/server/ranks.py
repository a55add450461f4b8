"""A model served by several processes: rank 0 speaks HTTP, schedules and samples, the others follow it."""

from __future__ import annotations

import logging
import signal
from contextlib import suppress
from pathlib import Path

import torch

from backends.telemetry import lines
from native_engine.config import EngineConfig
from native_engine.device import settled, torch_device
from native_engine.loading.encoder_config import is_encoder
from native_engine.loading.errors import ModelError
from native_engine.loading.weights import open_weights
from native_engine.model_runner import Runner, load_runner
from native_engine.parallel.following import follow, send_stop
from native_engine.parallel.group import Group, connect
from native_engine.parallel.job import Job, Place
from native_engine.parallel.launch import launch
from native_engine.parallel.sharding import rank_config
from native_engine.server.serve import CLOSE_SECONDS, Loaded, LoadedEncoder, Served, StartRefused, load, serve
from native_engine.server.sockets import CannotListen

_REFUSALS = (StartRefused, ModelError, CannotListen)
_MARGIN_SECONDS = 10


def serve_in_ranks(served: Served) -> None:
    """Blocks as serve does. Raises StartRefused for what can be known before ranks are started, what a rank refuses,
    and RanksLost."""
    _check(served)
    patience = served.drain_seconds + CLOSE_SECONDS + _MARGIN_SECONDS
    launch(served.config.tensor_parallel_size, Job(_work, (served,), _REFUSALS, patience))


def _check(served: Served) -> None:
    config, gpus = settled(served.config), torch.cuda.device_count()
    size = config.tensor_parallel_size
    if is_encoder(served.path):
        raise StartRefused(f"--tensor-parallel-size is {size}, but {served.name} makes embeddings: leave it at 1")
    if config.device == "gpu" and gpus and size > gpus:
        raise StartRefused(f"--tensor-parallel-size is {size}; expected at most {gpus}, the GPUs that can be seen here")
    rank_config(open_weights(served.path).config, size)


def _work(place: Place, served: Served) -> None:
    lines.setup(logging.INFO, {"rank": place.rank})
    on_gpu = settled(served.config).device == "gpu"
    device = torch_device(place.rank) if on_gpu else torch.device("cpu")
    group = connect(place.meeting_point, place.rank, place.size, device)
    if place.rank == 0:
        _lead(group, served)
    else:
        runner = _load_part(served, group)
        _leave_signals_to_the_first()
        follow(group, runner)


def _lead(group: Group, served: Served) -> None:
    followed = False

    def load_part(config: EngineConfig, path: Path) -> Loaded | LoadedEncoder:
        nonlocal followed
        loaded = load(config, path, group)
        followed = True
        return loaded

    try:
        serve(served, load_part)
    finally:
        if followed:
            with suppress(RuntimeError):  # where a rank is lost, the others notice by themselves
                send_stop(group)


def _load_part(served: Served, group: Group) -> Runner:
    try:
        return load_runner(served.config, open_weights(served.path), group)
    except (ValueError, MemoryError) as fault:
        raise StartRefused(str(fault) or "not enough memory to load the model") from fault


def _leave_signals_to_the_first() -> None:
    """The agent passes each signal on to every rank, and rank 0 has streams to finish."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
