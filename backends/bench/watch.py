"""What the server says of itself while a run lasts, from its metrics. Takes little of it, and is part of no figure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from backends.base import Load
from backends.bench.client import address
from backends.bench.config import BenchConfig
from backends.gauges import load_of

# By vLLM's names, where vLLM tells it. Preemptions are counted from the first look on.
_FIGURES: dict[str, Callable[[Load], float | None]] = {
    "num_requests_running": lambda load: load.running,
    "num_requests_waiting": lambda load: load.waiting,
    "num_requests_preempted": lambda load: load.preempted,
    "num_preemptions": lambda load: load.preemptions,
    "kv_cache_usage_perc": lambda load: load.kv_use,
}

_PAUSE_S = 0.5
_LEAST_PAUSE = 20  # times what a look took: it has at most a twentieth of the server's time
_MOST_LOOKS = 400  # then every other one is forgotten, and they come half as often
_PATIENCE_S = 2.0
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ServerLog:
    """`times` are `perf_counter` seconds, one for each of `loads`. `absent` says what is not known, and why."""

    times: tuple[float, ...] = ()
    loads: tuple[Load, ...] = ()
    absent: str = ""

    def series(self, start: float) -> dict[str, list[float | None]]:
        """Of each figure that the server tells, and of `times`, from `start` on."""
        told = {name: [figure(load) for load in self.loads] for name, figure in _FIGURES.items()}
        told = {name: values for name, values in told.items() if any(value is not None for value in values)}
        if counts := told.get("num_preemptions"):
            first = next(count for count in counts if count is not None)
            told["num_preemptions"] = [None if count is None else count - first for count in counts]
        return {"times": [at - start for at in self.times], **told} if told else {}

    def most(self) -> dict[str, float]:
        """The greatest value of each figure that the server tells."""
        series = self.series(0.0)
        return {name: max(value for value in series[name] if value is not None) for name in _FIGURES if name in series}

    def to_dict(self) -> dict[str, Any]:
        names = {name: name if name == "num_preemptions" else f"max_{name}" for name in _FIGURES}
        most = self.most()
        return {"server_metrics_absent": self.absent or None} | {names[name]: most.get(name) for name in _FIGURES}


class ServerWatch:
    """`async with ServerWatch(config) as watch:` around a run; `watch.read()` after it."""

    def __init__(self, config: BenchConfig) -> None:
        base, connector = address(config.metrics_url or config.url)
        self._url = config.metrics_url or f"{base.removesuffix('/v1')}/metrics"
        # A key is for the server that is measured, not for whatever address tells its metrics.
        key = None if config.metrics_url else config.api_key
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=aiohttp.ClientTimeout(total=_PATIENCE_S),
        )
        self._seen: list[tuple[float, Load]] = []
        self._pause = _PAUSE_S
        self._absent = ""
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ServerWatch:
        self._absent = await self._look()
        if not self._absent:
            self._looking = asyncio.create_task(self._keep_looking())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
            await self._look()
        await self._session.close()

    def read(self) -> ServerLog:
        absent = self._absent and f"running, waiting, preempted and KV use are not known: {self._absent}"
        if not absent and all(load.kv_use is None for _, load in self._seen):
            absent = f"the KV cache's use is not known: {self._url} does not tell it"
        return ServerLog(tuple(at for at, _ in self._seen), tuple(load for _, load in self._seen), absent)

    async def _keep_looking(self) -> None:
        pause = self._pause
        while True:
            await asyncio.sleep(pause)
            began = time.perf_counter()
            await self._look()
            if len(self._seen) >= _MOST_LOOKS:
                self._seen, self._pause = self._seen[::2], 2 * self._pause
            pause = max(self._pause, _LEAST_PAUSE * (time.perf_counter() - began))

    async def _look(self) -> str:
        """Why there was nothing to see; empty where there was."""
        try:
            async with self._session.get(self._url) as response:
                text = await _bounded(response.content) if response.status == 200 else b""
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"{self._url}: {type(error).__name__}"
        if response.status in (401, 403):
            return f"{self._url} answered {response.status}, they need another key or are elsewhere (--metrics-url)"
        if response.status != 200:
            return f"{self._url} answered {response.status}"
        if (load := load_of(text)) == Load():
            return f"{self._url} holds no figures that are known here"
        self._seen.append((time.perf_counter(), load))
        return ""


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    text = bytearray()
    async for piece in content.iter_any():
        text += piece
        if len(text) > _MOST_BYTES:
            break
    return bytes(text)
