"""A real model that computes while the next step is planned says what it says one step at a time."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.host_tier import Copy
from native_engine.loading.weights import open_weights
from native_engine.model_runner import Runner, fill_step, load_runner
from native_engine.request import Logprobs, SamplingParams, Sequence
from tests.native_engine import tiny_model
from tests.native_engine.fake_runner import make_scheduler

CONFIG = EngineConfig(model="", max_model_len=256, quantization="none", kv_cache_dtype="float32", max_num_seqs=8)
END = 252  # what this model's answers run into, some sooner, some later
PLAIN = SamplingParams(max_tokens=40, temperature=0.0)
HOSTED = (
    replace(PLAIN, temperature=1.0, seed=3),
    replace(PLAIN, logprobs=2, prompt_logprobs=1),
    replace(PLAIN, repetition_penalty=1.3),
)

Computed = tuple[torch.Tensor, list[int], list[int]]


class Step:
    """A thread stands for the device: it knows copies made at the launch, and the tokens that the step before chose."""

    def __init__(self, runner: OverlappingRunner, batch: ScheduledBatch) -> None:
        self.runner = runner
        self.batch = batch
        self.on_device = all(is_plain(item) for item in batch.items)
        items = [copy_of(item) for item in batch.items]
        self.computed = runner.last = runner.device.submit(self._compute, items, runner.last)

    def tokens(self) -> list[list[int]]:
        logits, greedy, chosen = self.computed.result()
        if self.on_device:
            return [[token] for token in chosen]
        return self.runner.model.sampler.sample(logits, greedy, self.batch.items)

    def _compute(self, items: list[ScheduledSequence], before: Future[Computed] | None) -> Computed:
        for item in items:
            if item.follows is not None:
                assert before is not None
                item.sequence.token_ids[-1] = before.result()[2][item.follows]
        fill_step(self.runner.model.step, items)
        logits, greedy = self.runner.model.forward()
        ends = np.cumsum([item.num_logits for item in items])
        return logits.clone(), greedy, [greedy[end - 1] for end, item in zip(ends, items, strict=True) if item.samples]


class OverlappingRunner:
    runs_ahead = True

    def __init__(self, model: Runner) -> None:
        self.model = model
        self.num_blocks, self.num_host_blocks = model.num_blocks, model.num_host_blocks
        self.max_model_len, self.window = model.max_model_len, model.window
        self.device = ThreadPoolExecutor(1)
        self.last: Future[Computed] | None = None
        self.num_ahead = 0

    def launch(self, batch: ScheduledBatch) -> Step:
        self.num_ahead += any(item.follows is not None for item in batch.items)
        return Step(self, batch)

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        return self.device.submit(self.model.execute, batch).result()

    def copy(self, copies: list[Copy]) -> None:
        self.device.submit(self.model.copy, copies)


def is_plain(item: ScheduledSequence) -> bool:
    params = item.sequence.params
    guided = item.sequence.looks_back or params.logprobs is not None or item.sequence.wants_prompt_logprobs
    return params.is_greedy and not guided and not item.drafts


def copy_of(item: ScheduledSequence) -> ScheduledSequence:
    sequence = Sequence(item.sequence.request_id, item.sequence.token_ids, item.sequence.params)
    sequence.block_table = list(item.sequence.block_table)
    sequence.num_computed_tokens = item.sequence.num_computed_tokens
    copied = ScheduledSequence(sequence, item.num_new_tokens, item.num_logits)
    copied.drafts, copied.follows = list(item.drafts), item.follows
    return copied


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    path = tiny_model.write_gguf(tmp_path_factory.mktemp("ahead") / "tiny.gguf")
    return load_runner(CONFIG, open_weights(path))


def answers(
    engine: Engine, params: tuple[SamplingParams, ...], vocabulary: int
) -> list[tuple[list[int], list[Logprobs]]]:
    """Requests that come one by one, each the stranger of all others, with prompts that begin alike."""
    random = np.random.default_rng(5)
    sequences = [
        Sequence(
            str(index),
            [*[7] * int(random.integers(0, 40)), *random.integers(3, vocabulary, int(random.integers(1, 50))).tolist()],
            params[index % len(params)],
            eos_token_ids=frozenset({END}),
        )
        for index in range(12)
    ]
    for sequence in sequences:
        engine.add(sequence)
        engine.step()
    while engine.has_work:
        engine.step()
    assert engine.scheduler.blocks.check_integrity(sequences) == []
    return [(sequence.output_token_ids, sequence.prompt_logprobs) for sequence in sequences]


@pytest.mark.parametrize("params", [(PLAIN,), (PLAIN, PLAIN, PLAIN, *HOSTED)])
@pytest.mark.parametrize("guesses", [0, 4])
@pytest.mark.parametrize("num_blocks", [20, 64])
def test_a_model_says_the_same_when_the_next_step_is_planned_meanwhile(
    model: Runner, params: tuple[SamplingParams, ...], num_blocks: int, guesses: int
) -> None:
    vocabulary = len(tiny_model.vocabulary())
    ahead = OverlappingRunner(model)
    found, expected = (
        answers(Engine(runner, make_scheduler(num_blocks, num_speculative_tokens=guesses)), params, vocabulary)
        for runner in (ahead, model)
    )
    ahead.device.shutdown()
    assert found == expected
    assert len({len(tokens) for tokens, _ in found}) > 3, "they end at different places"
    assert (ahead.num_ahead > 40) == (params == (PLAIN,) and not guesses)
