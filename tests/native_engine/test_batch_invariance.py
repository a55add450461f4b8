"""The same request gives the same bits of logits, and so the same tokens, whatever else the engine does meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gguf
import numpy as np
import pytest

from kernels.native.library import available
from native_engine.batch import ScheduledBatch
from native_engine.block_manager import BlockManager
from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading.weights import RawTensor, Weights, open_weights
from native_engine.model_runner import NativeRunner
from native_engine.quantization.dequantize import dequantize
from native_engine.request import SamplingParams, Sequence
from native_engine.scheduler import Scheduler
from tests.native_engine import test_expert_models, test_models
from tests.native_engine.driving import run

pytestmark = pytest.mark.skipif(not available(), reason="the native library was not built: no C++ compiler")

EXACT = EngineConfig(model="", max_model_len=256, kv_cache_dtype="float32", dtype="float32", max_num_seqs=6)
# Models with the settings they run under: every kernel that a step may meet.
CASES: dict[str, tuple[Any, str | None, EngineConfig]] = {
    "float32": (test_models.CONFIGS["llama"], None, EXACT),
    "fp8-cache": (test_models.CONFIGS["qwen3"], None, replace(EXACT, kv_cache_dtype="fp8")),
    "quantised": (test_models.CONFIGS["qwen2"], "Q4_0", replace(EXACT, dtype="auto", kv_cache_dtype="auto")),
    "experts": (test_expert_models.CONFIGS["qwen3moe"], "Q8_0", replace(EXACT, kv_cache_dtype="fp8")),
}
GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
SEEDED = replace(GREEDY, temperature=0.9, top_p=0.95, seed=42)
PROMPT = np.random.default_rng(1).integers(0, 300, 75).tolist()


class Watched(NativeRunner):
    """Keeps the logits that each request was sampled from."""

    def __init__(self, config: EngineConfig, weights: Weights) -> None:
        super().__init__(config, weights)
        self.seen: dict[str, list[np.ndarray]] = {}

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        tokens, row = super().execute(batch), 0
        for item in batch.items:
            row += item.num_logits
            if item.samples:
                self.seen.setdefault(item.sequence.request_id, []).append(self.logits.array[row - 1].copy())
        return tokens

    def engine(self, blocks: int = 64, budget: int = 256, caching: bool = False) -> Engine:
        self.seen.clear()
        return Engine(self, Scheduler(BlockManager(blocks, 16, caching), 6, budget, self.max_model_len))


def quantised(weights: Weights, type_name: str) -> Weights:
    """The same model with every matrix of this type whose rows are whole groups."""

    def read(name: str) -> RawTensor:
        raw = weights.get(name)
        if len(raw.shape) < 2 or raw.shape[1] % 32:
            return raw
        data = gguf.quants.quantize(dequantize(raw), gguf.GGMLQuantizationType[type_name])
        return RawTensor(type_name, raw.shape, data)

    return Weights(weights.path, weights.config, {name: lambda name=name: read(name) for name in weights.names()})


@pytest.fixture(scope="module", params=CASES)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    model, type_name, config = CASES[request.param]
    folder = tmp_path_factory.mktemp("model")
    test_models.save(model, folder)
    weights = open_weights(folder)
    return Watched(config, quantised(weights, type_name) if type_name else weights)


@pytest.fixture(scope="module")
def alone(runner: Watched) -> dict[SamplingParams, np.ndarray]:
    return {params: outcome(runner, runner.engine(), params) for params in (GREEDY, SEEDED)}


def request(params: SamplingParams, prompt: list[int] = PROMPT, name: str = "watched") -> Sequence:
    return Sequence(name, prompt, params)


def outcome(runner: Watched, engine: Engine, params: SamplingParams) -> np.ndarray:
    """The bits of all logits of the watched request, added now and run to its end."""
    sequence = request(params)
    engine.add(sequence)
    run(engine, [sequence])
    engine.abort_all()
    return np.stack(runner.seen["watched"]).view(np.uint32)


def strangers(engine: Engine, lengths: list[tuple[int, int]]) -> list[Sequence]:
    """Requests of these lengths of prompt and answer, added and not yet run."""
    rng = np.random.default_rng(len(lengths))
    made = []
    for index, (prompt, answer) in enumerate(lengths):
        params = replace(SEEDED, seed=None, max_tokens=answer)
        made.append(request(params, rng.integers(0, 300, prompt).tolist(), f"stranger-{index}"))
        engine.add(made[-1])
    return made


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("budget", [6, 17])
def test_a_prompt_in_chunks(runner: Watched, alone: Any, params: SamplingParams, budget: int) -> None:
    assert np.array_equal(outcome(runner, runner.engine(budget=budget), params), alone[params])


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_company(runner: Watched, alone: Any, params: SamplingParams) -> None:
    """Others that came before, of which some end while it runs, and whose prompts share its steps."""
    engine = runner.engine(budget=60)
    strangers(engine, [(3, 9), (90, 2), (17, 40), (33, 14), (64, 30)])
    for _ in range(3):
        engine.step()
    assert np.array_equal(outcome(runner, engine, params), alone[params])


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("shared", [40, 75])
def test_a_cached_prefix(runner: Watched, alone: Any, params: SamplingParams, shared: int) -> None:
    engine = runner.engine(caching=True)
    first = request(GREEDY, [*PROMPT[:shared], 7, 7, 7], "first")
    engine.add(first)
    run(engine, [first])
    sequence = request(params)
    engine.add(sequence)
    run(engine, [sequence])
    assert sequence.num_cached_tokens == shared // 16 * 16
    assert np.array_equal(np.stack(runner.seen["watched"]).view(np.uint32), alone[params])


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_a_preemption(runner: Watched, alone: Any, params: SamplingParams) -> None:
    engine = runner.engine(blocks=12, budget=100)
    strangers(engine, [(30, 60), (40, 60)])
    engine.step()
    sequence = request(params)
    engine.add(sequence)
    run(engine, [sequence])
    engine.abort_all()
    assert sequence.num_preemptions > 0
    assert np.array_equal(np.stack(runner.seen["watched"]).view(np.uint32), alone[params])


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"top_k": 9},
        {"top_p": 0.7},
        {"min_p": 0.02},
        {"typical_p": 0.6},
        {"min_tokens": 9},
        {"presence_penalty": 1.0, "frequency_penalty": 0.5, "repetition_penalty": 1.2},
        {"logit_bias": {5: 3.0}, "bad_words_ids": ((7,), (8, 9))},
    ],
    ids=lambda limits: "-".join(limits) or "temperature",
)
@pytest.mark.parametrize("runner", ["float32"], indirect=True)
def test_no_neighbour_changes_a_seeded_request(runner: Watched, limits: dict[str, Any]) -> None:
    params, texts = replace(SEEDED, **{"top_p": 1.0, **limits}), []
    for lengths in ([], [(5, 30), (31, 3), (50, 30)]):
        engine, sequence = runner.engine(budget=50), request(params)
        strangers(engine, lengths)
        engine.add(sequence)
        run(engine, [sequence])
        engine.abort_all()
        texts.append(sequence.output_token_ids)
    assert texts[0] == texts[1]
