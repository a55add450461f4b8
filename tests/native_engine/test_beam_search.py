"""Beam search against transformers' on the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from native_engine.beam_search import BeamSearchParams, beam_search
from native_engine.config import EngineConfig
from native_engine.engine import Engine
from native_engine.loading.weights import open_weights
from native_engine.model_runner import TorchRunner
from tests.native_engine.fake_runner import make_scheduler
from tests.native_engine.noise_runner import NoiseRunner

SIZE, PADDING = 80, 79
PROMPTS = [[5, 9, 40, 3, 77, 12], list(range(1, 40)), [8]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Small, random, and with logits far enough apart to end now and then."""
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=SIZE,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        head_dim=32,
        initializer_range=0.3,
    )
    made = AutoModelForCausalLM.from_config(config).eval()
    path = tmp_path_factory.mktemp("beams")
    made.save_pretrained(path)
    return made, path


@pytest.fixture(scope="module")
def engine(model: tuple[Any, Path]) -> Engine:
    config = EngineConfig(model="m", kv_cache_dtype="float32", kv_cache_memory=32 * 2**20, num_threads=1)
    return Engine.create(TorchRunner(config, open_weights(model[1])), config)


@pytest.mark.parametrize(("width", "length_penalty"), [(1, 1.0), (2, 1.0), (4, 0.0), (3, -1.0), (4, 2.0)])
@pytest.mark.parametrize("ends", [[], [11, 30, 31, 50, 51, 64]], ids=["never-ends", "ends"])
def test_beams_are_those_of_transformers(
    model: tuple[Any, Path], engine: Engine, width: int, length_penalty: float, ends: list[int]
) -> None:
    params = BeamSearchParams(beam_width=width, max_tokens=12, length_penalty=length_penalty)
    found = beam_search(engine, PROMPTS, params, frozenset(ends))
    for prompt, beams in zip(PROMPTS, found, strict=True):
        truth = model[0].generate(
            torch.tensor([prompt]),
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=12,
            length_penalty=length_penalty,
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=PADDING,
            return_dict_in_generate=True,
            output_scores=True,
        )
        for beam, row in zip(beams, truth.sequences.tolist(), strict=True):
            answer = row[len(prompt) :]
            assert list(beam.token_ids) == answer[: len(beam.token_ids)]
            assert set(answer[len(beam.token_ids) :]) <= {PADDING}
        if width > 1:
            scores = [beam.score for beam in beams]
            assert scores == pytest.approx(truth.sequences_scores.tolist(), rel=1e-5)


def test_what_beams_have_in_common_is_computed_once() -> None:
    made = Engine(NoiseRunner(64, SIZE), make_scheduler(64))
    params = BeamSearchParams(beam_width=3, max_tokens=20)
    (beams,) = beam_search(made, [[n % SIZE for n in range(100)]], params, frozenset())
    assert len({beam.token_ids for beam in beams}) == 3
    assert all(len(beam.token_ids) == 20 for beam in beams)
    stats = made.stats()
    assert stats.prefix_cache_hits > 0.85 * stats.prefix_cache_queries
    assert stats.kv_blocks_used == 0


def test_ends_count_only_where_they_are_wanted() -> None:
    made = Engine(NoiseRunner(64, SIZE), make_scheduler(64))
    every = frozenset(range(SIZE))
    (ended,) = beam_search(made, [[1, 2]], BeamSearchParams(beam_width=2, max_tokens=5), every)
    (full,) = beam_search(made, [[1, 2]], BeamSearchParams(beam_width=2, max_tokens=5, ignore_eos=True), every)
    assert [len(beam.token_ids) for beam in ended] == [1, 1]
    assert [len(beam.token_ids) for beam in full] == [5, 5]


@pytest.mark.parametrize(
    "wrong", [{"beam_width": 0}, {"beam_width": 11}, {"max_tokens": 0}, {"length_penalty": float("nan")}]
)
def test_settings_that_mean_nothing_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BeamSearchParams(**{"beam_width": 2, "max_tokens": 4, **wrong})


@pytest.mark.parametrize("prompt", [[], [1] * 1020])
def test_a_prompt_that_does_not_fit_is_refused_by_its_number(prompt: list[int]) -> None:
    made = Engine(NoiseRunner(64, SIZE), make_scheduler(64))
    with pytest.raises(ValueError, match=r"prompt 1: .* expected 1 to 1024"):
        beam_search(made, [[1], prompt], BeamSearchParams(beam_width=2, max_tokens=5), frozenset())
