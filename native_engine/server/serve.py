"""The engine's process: bind, answer 503, load, serve, drain. The composition root of the engine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar, cast

import uvicorn

from backends.telemetry.otlp import NotInstalled, check_endpoint, open_tracing, require
from native_engine.config import EngineConfig, validate
from native_engine.embedder import Embedder
from native_engine.engine import Engine, EngineLoop
from native_engine.loading import store
from native_engine.loading.chat_template import ChatTemplate
from native_engine.loading.encoder_config import is_encoder
from native_engine.loading.text_encoder import TextEncoder
from native_engine.loading.tokenizer import Tokenizer, load_tokenizer
from native_engine.server.app import App
from native_engine.server.delivery import Delivery
from native_engine.server.service import BaseService, EmbeddingService, ModelInfo, Service
from native_engine.server.sockets import listening
from native_engine.server.traces import SERVICE
from native_engine.work import Work, shape_of

if TYPE_CHECKING:
    from backends.telemetry.tracing import Tracing
    from native_engine.parallel.group import Group

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# The event loop and the engine's thread hand the interpreter to each other many times a step; at Python's default of
# 5 ms a burst of streamed chunks would hold up the next kernel for longer than a step takes.
_SWITCH_SECONDS = 0.0005
_WATCH_SECONDS = 1.0
# What clients that do not read may take after the drain, before their connections are cut.
CLOSE_SECONDS = 5


class StartRefused(Exception):
    """The engine cannot start as configured; one fault a line."""


@dataclass(frozen=True)
class Served:
    """What is served, and where. `path` is the model's; without `uds` on a port."""

    name: str
    config: EngineConfig
    path: Path
    uds: Path | None
    host: str
    port: int | None
    drain_seconds: float
    otlp_endpoint: str | None = None  # where traces go


@dataclass(frozen=True)
class Loaded:
    engine: Engine
    tokenizer: Tokenizer
    template: ChatTemplate | None


@dataclass(frozen=True)
class LoadedEncoder:
    embedder: Embedder
    texts: TextEncoder


Loader = Callable[[EngineConfig, Path], Loaded | LoadedEncoder]


def load(config: EngineConfig, path: Path, group: Group | None = None) -> Loaded | LoadedEncoder:
    """`group`: of the ranks that share the model; None: this process is alone."""
    # torch, seconds of import: not before the port answers
    from native_engine.device import settled
    from native_engine.encoder import load_encoder
    from native_engine.loading.weights import open_weights
    from native_engine.model_runner import load_runner
    from native_engine.parallel.group import ALONE
    from native_engine.parallel.sharding import rank_config

    if is_encoder(path):
        return LoadedEncoder(Embedder(load_encoder(config, path), config), TextEncoder(path))
    weights = open_weights(path)
    tokenizer = load_tokenizer(path)
    source = weights.config.chat_template
    template = None
    if source:
        template = ChatTemplate(source, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token)
    config = settled(config)
    group = ALONE if group is None else group
    runner = load_runner(config, weights, group)
    shape = shape_of(rank_config(weights.config, group.size))
    work = Work(shape, runner.weight_bytes, runner.caches[0].keys.itemsize)
    return Loaded(Engine.create(runner, config, work), tokenizer, template)


def serve_engine(
    config: EngineConfig,
    *,
    data_dir: str | Path,
    uds: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    served_model_name: str | None = None,
    drain_seconds: float = 30.0,
    otlp_endpoint: str | None = None,
    loader: Loader = load,
) -> None:
    """Blocks until a signal and the drain after it. Raises StartRefused, ModelError or CannotListen; of several ranks
    also RanksLost."""
    faults = validate(config)
    if (uds is None) == (port is None):
        faults.append("choose either a Unix socket or a port to listen on")
    try:
        require(check_endpoint(otlp_endpoint))
    except (ValueError, NotInstalled) as fault:
        faults.append(f"otlp_endpoint: {otlp_endpoint!r} cannot be used: {fault}")
    if faults:
        raise StartRefused("\n".join(faults))
    path = store.pull(config.model, data_dir)
    name = served_model_name or default_name(config.model, path, data_dir)
    served = Served(
        name,
        replace(config, model=str(path)),
        path,
        None if uds is None else Path(uds),
        host,
        port,
        drain_seconds,
        check_endpoint(otlp_endpoint),
    )
    if config.tensor_parallel_size == 1:
        serve(served, loader)
    else:
        from native_engine.server.ranks import serve_in_ranks  # the elastic agent, seconds of import

        serve_in_ranks(served)


def serve(served: Served, loader: Loader = load) -> None:
    """In this process."""
    with listening(uds=served.uds, host=served.host, port=served.port) as bound, _tracing(served) as tracing:
        process = _Process(served, loader, tracing)
        with asyncio.Runner(loop_factory=process.config.get_loop_factory()) as runner:
            logger.info("listening on %s", bound.getsockname())
            runner.run(process.run(bound))


@contextlib.contextmanager
def _tracing(served: Served) -> Iterator[Tracing | None]:
    if served.otlp_endpoint is None:
        yield None
        return
    tracing = open_tracing(SERVICE, served.otlp_endpoint)
    try:
        yield tracing
    finally:
        tracing.close()


def default_name(model: str, path: Path, data_dir: str | Path) -> str:
    """An alias or a scheme's name as it is; of a local path its last part."""
    source = store.resolve(model, data_dir)
    return path.stem if source.kind == "local" and path.is_file() else Path(source.alias).name


class _Process:
    """One run, from the first 503 to the last byte."""

    def __init__(self, served: Served, loader: Loader, tracing: Tracing | None) -> None:
        self._served = served
        self._tracing = tracing
        self._loader = loader
        self._app = App()
        self._stop = asyncio.Event()
        self.config = uvicorn.Config(
            self._app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=120,  # longer than a pooling client keeps a connection, so that the client closes first
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
        self._server = _Server(self.config, self._on_signal)

    async def run(self, bound: socket.socket) -> None:
        self._event_loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(self._server.serve(sockets=[bound]))
        try:
            await self._until_stopped()
        finally:
            self._app.draining = True
            if self._app.service is not None:
                await self._app.service.drain(self._served.drain_seconds)
            self._server.should_exit = True
            await serving

    async def _until_stopped(self) -> None:
        loading = asyncio.ensure_future(self._load())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return
        service = loading.result()
        while not self._stop.is_set():
            if not service.ready:
                raise RuntimeError("the engine loop has ended; the log says why")
            await asyncio.wait({stopping}, timeout=_WATCH_SECONDS)

    async def _load(self) -> BaseService:
        started, name = time.perf_counter(), self._served.name
        service = await load_service(name, self._served.config, self._served.path, self._loader)
        service.tracing = self._tracing
        gc.collect()
        gc.freeze()  # the model's objects live for ever; no collection need look at them again
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._app.service = service
        seconds = time.perf_counter() - started
        logger.info("serving %s, %d tokens of context, after %.1f s", name, service.info.max_model_len, seconds)
        return service

    def _on_signal(self, number: int) -> None:
        """Called between any two instructions of the main thread, so it only leaves word for the event loop."""
        self._event_loop.call_soon_threadsafe(self._hurry if self._stop.is_set() else self._begin_drain, number)

    def _begin_drain(self, number: int) -> None:
        seconds = self._served.drain_seconds
        logger.info("signal %d: streams have %.0f s to finish; another signal ends them", number, seconds)
        self._stop.set()

    def _hurry(self, number: int) -> None:
        logger.warning("signal %d again: ending at once", number)
        self._server.force_exit = True
        if self._app.service is not None:
            self._hurried = asyncio.ensure_future(self._app.service.drain(0))


async def load_service(name: str, config: EngineConfig, path: Path, loader: Loader = load) -> BaseService:
    """A model that answers. Raises StartRefused where the settings do not fit it or this machine, and ModelError."""
    try:
        loaded = await _in_daemon_thread(lambda: loader(config, path))
    except (ValueError, MemoryError) as fault:
        raise StartRefused(str(fault) or "not enough memory to load the model") from fault
    service = _service(name, loaded)
    service.worker.start()
    return service


def _service(name: str, loaded: Loaded | LoadedEncoder) -> BaseService:
    if isinstance(loaded, LoadedEncoder):
        return EmbeddingService(name, loaded.embedder, loaded.texts)
    delivery = Delivery()
    delivery.connect(EngineLoop(loaded.engine, delivery.deliver))
    return Service(
        ModelInfo(name, loaded.engine.scheduler.max_total_tokens), loaded.tokenizer, loaded.template, delivery
    )


async def _in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Unlike asyncio's own threads it does not hold up the end of the process: loading can take minutes."""
    event_loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = event_loop.create_future()

    def settle(result: _Result | None, fault: BaseException | None) -> None:
        if future.cancelled():
            return
        if fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(cast(_Result, result))

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except Exception as caught:
            fault = caught
        with contextlib.suppress(RuntimeError):  # the event loop has closed: nobody waits any more
            event_loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, name="loader", daemon=True).start()
    return await future


class _Server(uvicorn.Server):
    """Leaves signals to the process: uvicorn's own way closes the port before the streams have finished."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_signal(sig)
