"""The table of metrics in the documentation is what the engine exports, name by name."""

from __future__ import annotations

from backends.capacity import SHAPES
from native_engine.embedder import EmbedderStats
from native_engine.histogram import Histogram
from native_engine.server.metrics import Metrics
from native_engine.work import Work
from tests.gateway.telemetry.exported import exported, families
from tests.gateway.telemetry.table import documented
from tests.native_engine.server.conftest import MODEL, Bench


async def test_the_engines_metrics_are_those_of_the_table(bench: Bench) -> None:
    bench.engine.work = Work(SHAPES["smollm2-135m"], 10**8, 2)
    bench.say("hello")
    await bench.client.chat()
    told = families((await bench.client.get("/metrics")).body)
    rows = documented("The native engine")
    embeds = families(Metrics().render(MODEL, EmbedderStats(0, 0, 0, 0, 0, Histogram((1,)), Histogram((1,)))))
    assert told | embeds == rows
    assert told.keys() - embeds.keys() == documented("The native engine", starred=True).keys()


async def test_what_a_step_computes_is_estimated_where_the_shape_is_known(bench: Bench) -> None:
    assert "estimated" not in (await bench.client.get("/metrics")).body.decode()
    bench.engine.work = Work(SHAPES["smollm2-135m"], 10**8, 2)
    bench.say("hello")
    await bench.client.chat()
    told = exported((await bench.client.get("/metrics")).body)
    m = frozenset({("model_name", MODEL)})
    assert told["sekisho_engine_estimated_read_bytes_total", m] > 10**8
    assert told["sekisho_engine_estimated_flops_total", m] > 10**8
