"""The table of metrics in the documentation is what the engine exports, name by name."""

from __future__ import annotations

from pathlib import Path

from backends.capacity import SHAPES, active_parameters
from native_engine.config import EngineConfig
from native_engine.embedder import EmbedderStats
from native_engine.histogram import Histogram
from native_engine.loading.weights import open_weights
from native_engine.request import SamplingParams, Sequence
from native_engine.server.metrics import Metrics
from native_engine.server.serve import Loaded, load
from native_engine.work import Work, shape_of
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


def test_an_engine_that_is_loaded_knows_its_models_shape(tiny_gguf: Path) -> None:
    config = EngineConfig(model=str(tiny_gguf), max_num_seqs=4, max_model_len=64, max_num_batched_tokens=64)
    loaded = load(config, tiny_gguf)
    assert isinstance(loaded, Loaded)
    loaded.engine.add(Sequence("r", [1, 2, 3], SamplingParams(max_tokens=1)))
    while loaded.engine.has_work:
        loaded.engine.step()
    work, weights = loaded.engine.stats().work, loaded.engine.runner.weight_bytes  # type: ignore[attr-defined]
    assert work is not None
    assert work.flops > 2 * 3 * active_parameters(shape_of(open_weights(tiny_gguf).config))
    assert 0.5 * weights < work.read_bytes < 2 * weights
