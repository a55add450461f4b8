"""The table of metrics in the documentation is what is exported, name by name."""

from __future__ import annotations

from pathlib import Path

from backends.fake import FakeBackend
from gateway.app import App
from gateway.settings import load
from tests.gateway.conftest import ADMIN_KEY, ask, eventually, running
from tests.gateway.telemetry.exported import declared, families
from tests.gateway.telemetry.table import documented


async def test_the_gateways_metrics_are_those_of_the_table(redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "sekisho.yaml"
    file.write_text("{}")
    settings = load(redis_url=redis_url, data_dir=tmp_path, bootstrap_key=ADMIN_KEY, engine_kind="fake")
    backend = FakeBackend()
    app = App(settings, {"fake": backend}, file=file, read=lambda: settings)
    async with running(app, backend, settings) as door:
        async with door.post(ask()) as response:
            await response.read()
        assert app.door is not None
        metrics = app.door.metrics
        await eventually(lambda: b"sekisho_requests_total{" in metrics.render())
        told = families(metrics.render())
        assert declared(metrics) == documented("The gateway")
    # Of what has not happened there is no sample.
    assert {name: family for name, family in told.items() if family.labels}.items() <= documented("The gateway").items()
