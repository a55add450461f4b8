"""The metrics on a port of their own, without a key: for a Prometheus that is the only one to reach it."""

from __future__ import annotations

import logging

from aiohttp import web

from gateway.telemetry.metrics import CONTENT_TYPE, Metrics

log = logging.getLogger("sekisho.metrics")


class MetricsPort:
    """`start` before use, `aclose` after. `port`: 0 takes any free one."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._metrics = metrics
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Raises OSError, which names the setting, where the port cannot be had."""
        app = web.Application()
        app.router.add_get("/metrics", self._show)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self.aclose()
            raise OSError(
                f"metrics_port: {self._port} cannot be listened on at metrics_host {self._host}: {error}. "
                "Choose another that is free; every gateway on a machine needs its own"
            ) from error
        log.info("metrics are at http://%s:%d/metrics", self._host, self.port)

    @property
    def port(self) -> int:
        """The one that is listened on."""
        return int(self._runner.addresses[0][1]) if self._runner is not None else self._port

    async def aclose(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _show(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"content-type": CONTENT_TYPE})
